"""What a checkpoint is worth: zero-shot classification and retrieval."""

from cxrtext.evaluation.classification import (
    area_under_curve,
    prompt_embeddings,
    score_differences,
)
from cxrtext.evaluation.prompts import CHEX5_PROMPTS, Prompts, read_prompts
from cxrtext.evaluation.retrieval import retrieval_metrics
from cxrtext.evaluation.run import Evaluation, evaluate

__all__ = [
    "CHEX5_PROMPTS",
    "Evaluation",
    "Prompts",
    "area_under_curve",
    "evaluate",
    "prompt_embeddings",
    "read_prompts",
    "retrieval_metrics",
    "score_differences",
]
