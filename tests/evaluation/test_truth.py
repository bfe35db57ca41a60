"""truthAUC against AUC one sentence at a time."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.settings import TRUTH
from cxrtext.evaluation.truth import measure_truth
from cxrtext.images import Preprocessing
from cxrtext.metrics.ranking import area_under_curve
from cxrtext.phantom.studies import draw_studies
from cxrtext.phantom.truth import known_truth
from cxrtext.records import ImageRecord

STUDIES = draw_studies(60, 1)
KNOWN = known_truth(STUDIES)
COHORT = Cohort(
    [
        ImageRecord(Path(f"{s.study_id}.png"), s.study_id, s.study_id, s.patient_id, s.split)
        for s in STUDIES
    ],
    [(64, 64)] * len(STUDIES), torch.zeros(len(STUDIES), 1, 2), Preprocessing(64, 64),
)  # fmt: skip


class Knowing:
    """A model that scores by a sentence's truth, and noise: the share of it is ``noise``."""

    device = torch.device("cpu")

    def __init__(self, noise: float) -> None:
        self.noise = noise
        self.texts: list[str] = []

    def embed_sentences(self, texts: list[str]) -> torch.Tensor:
        start = len(self.texts)
        self.texts += texts
        return torch.arange(start, len(self.texts), dtype=torch.float32)[:, None]

    def scores(self, regions: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        claims = [KNOWN.claims[self.texts[int(i)]] for i in texts[:, 0]]
        true = KNOWN.holds(claims, [study.study_id for study in STUDIES])
        drawn = torch.rand(true.shape, generator=torch.Generator().manual_seed(0))
        return torch.from_numpy(true).float() + self.noise * drawn


def test_who_knows_everything_and_who_guesses() -> None:
    sure = measure_truth(Knowing(0.0), COHORT, KNOWN)  # type: ignore[arg-type]
    assert sure[TRUTH].value == 1.0
    assert len(sure) == 4
    noisy = measure_truth(Knowing(2.0), COHORT, KNOWN)  # type: ignore[arg-type]
    for name, one in noisy.items():
        assert 0.6 < one.value < 0.98, name
        low, high = one.interval()
        assert low < one.value < high
        assert one.rows == sure[name].rows  # paired
    studies = [study.study_id for study in STUDIES]
    texts = [one for one in KNOWN.sentences_of(studies) if one in KNOWN.claims]
    model = Knowing(2.0)
    scores = model.scores(torch.zeros(0), model.embed_sentences(texts)).numpy()
    holds = KNOWN.holds([KNOWN.claims[text] for text in texts], studies)
    each = [area_under_curve(s, t) for s, t in zip(scores, holds, strict=True) if 0 < t.sum() < 60]
    assert noisy[TRUTH].value == pytest.approx(np.mean(each), abs=0.02)
