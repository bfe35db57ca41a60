"""truthAUC against AUC one sentence and one resample at a time."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.intervals.bootstrap import draw
from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.evaluation.settings import TRUTH, Settings
from cxrtext.evaluation.truth import areas, measure_truth
from cxrtext.images import Preprocessing
from cxrtext.phantom.claims import rho
from cxrtext.phantom.studies import draw_studies
from cxrtext.phantom.truth import KnownTruth
from cxrtext.records import ImageRecord

STUDIES = draw_studies(60, 1)
KNOWN = KnownTruth(
    {one.text: one.claim for s in STUDIES for _, some in s.report.sections() for one in some},
    {study.study_id: study.patient.state for study in STUDIES},
    {s.study_id: [one.text for _, some in s.report.sections() for one in some] for s in STUDIES},
)
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


def test_areas_against_one_at_a_time() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(30) < 0.3
    scores = rng.integers(0, 9, (4, 30)).astype(np.float32)  # with ties
    counts = draw([str(i // 2) for i in range(30)], 20, (0,))
    each, means = areas(scores, truth, counts)
    assert each == pytest.approx([area_under_curve(row, truth) for row in scores])
    expected = np.mean([area_under_curve(row, truth, counts) for row in scores], axis=0)
    assert means == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_who_knows_everything_and_who_guesses() -> None:
    settings = Settings(resamples=50)
    sure = measure_truth(Knowing(0.0), COHORT, KNOWN, settings)  # type: ignore[arg-type]
    assert sure[TRUTH].estimate == 1.0
    assert len(sure) == 4
    noisy = measure_truth(Knowing(2.0), COHORT, KNOWN, settings)  # type: ignore[arg-type]
    for name, one in noisy.items():
        assert 0.6 < one.estimate < 0.98, name
        low, high = np.nanquantile(one.values, [0.025, 0.975])
        assert low < one.estimate < high
        assert one.rows == sure[name].rows  # paired
    known = {*map(rho, KNOWN.claims.values())}
    assert min(known) < 0.1
    assert max(known) > 0.5
