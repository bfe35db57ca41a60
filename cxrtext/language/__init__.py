"""Pseudo-log-likelihoods of sentences, and the language models that give them."""

from cxrtext.language.corpus import Corpus, read_corpus
from cxrtext.language.pretrain import pretrain_text
from cxrtext.language.pretrain_settings import SHAPES
from cxrtext.language.pretrain_summary import PretrainSummary
from cxrtext.language.score import (
    SentenceScores,
    score_sentences,
    score_sentences_detailed,
)
from cxrtext.language.score_reports import ScoreSummary, score_reports

__all__ = [
    "SHAPES",
    "Corpus",
    "PretrainSummary",
    "ScoreSummary",
    "SentenceScores",
    "pretrain_text",
    "read_corpus",
    "score_reports",
    "score_sentences",
    "score_sentences_detailed",
]
