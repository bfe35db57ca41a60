"""Measure a checkpoint: zero-shot classification, grounding and retrieval."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.evaluation.classification.prompt_scores import prompt_embeddings, score_differences
    from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts, read_prompts
    from cxrtext.evaluation.comparison import Comparison, compare
    from cxrtext.evaluation.evaluate import evaluate
    from cxrtext.evaluation.measure import measure, measure_file
    from cxrtext.evaluation.predictions.file import Predictions, write_predictions
    from cxrtext.evaluation.result import Evaluation
    from cxrtext.evaluation.settings import Settings

__all__ = [
    "CHEX5_PROMPTS",
    "Comparison",
    "Evaluation",
    "Predictions",
    "Prompts",
    "Settings",
    "compare",
    "evaluate",
    "measure",
    "measure_file",
    "prompt_embeddings",
    "read_prompts",
    "score_differences",
    "write_predictions",
]

import_on_use(__name__)
