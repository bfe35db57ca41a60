"""Pseudo-log-likelihoods of sentences, and the language models that compute them."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.language.corpus import Corpus, read_corpus
    from cxrtext.language.pretraining.pretrain import PretrainSummary, pretrain_text
    from cxrtext.language.pretraining.settings import SHAPES
    from cxrtext.language.report_labels import label_reports
    from cxrtext.language.scoring.reports import score_reports
    from cxrtext.language.scoring.score import (
        SentenceScores,
        score_sentences,
        score_sentences_detailed,
    )
    from cxrtext.language.scoring.settings import ScoreSettings, ScoreSummary

__all__ = [
    "SHAPES",
    "Corpus",
    "PretrainSummary",
    "ScoreSettings",
    "ScoreSummary",
    "SentenceScores",
    "label_reports",
    "pretrain_text",
    "read_corpus",
    "score_reports",
    "score_sentences",
    "score_sentences_detailed",
]

import_on_use(__name__)
