"""The tasks of an evaluation against plain computations."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.evaluation import Evaluation, evaluate
from cxrtext.evaluation.classification.finding import (
    UNFITTED,
    Case,
    ValidationFit,
    fit_validation,
    measure_finding,
)
from cxrtext.evaluation.classification.prompt_scores import (
    prompt_embeddings,
    score_differences,
    scorer,
)
from cxrtext.evaluation.retrieval.sentences import gather_wording
from cxrtext.evaluation.rows import RETRIEVAL, ZERO_SHOT, Rows
from cxrtext.metrics.intervals import Measured, area, share
from cxrtext.metrics.ranking import Truth, retrieval_metrics
from cxrtext.models import ImageTextModel
from tests.evaluation.conftest import PROMPTS, QUICK


def test_retrieval_is_that_of_the_whole_matrix(
    checkpoint: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("ON_DISK", 1), ("ROWS_AT_ONCE", 2), ("IMAGES_AT_ONCE", 5)):
        monkeypatch.setattr(f"cxrtext.evaluation.retrieval.sentences.{name}", value)
    monkeypatch.setattr("cxrtext.evaluation.cohort.IMAGES_AT_ONCE", 5)
    result = evaluate(checkpoint, data_folder, settings=QUICK)
    assert result.details is not None
    cohort, model = result.details.cohort, result.details.model
    wording = gather_wording(cohort, result.details.folder.sentences or ())
    with torch.inference_mode():
        vectors = model.embed_sentences(wording.texts)
        scores = model.scores(cohort.regions.float(), vectors).numpy()
    assert scores.shape == (3, 12)  # equal sentences are one
    right = np.zeros(scores.shape, dtype=bool)
    for row, places in wording.images.items():
        right[row, places] = True
    for direction, expected in (
        ("sentence to image", retrieval_metrics(scores, right, [1, 5, 10])),
        ("image to sentence", retrieval_metrics(scores.T, right.T, [1])),
    ):
        found = result.rows.of(RETRIEVAL, direction)
        assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert [len(places) for places in wording.images.values()] == [4, 4, 4]
    mean = result.rows.find(RETRIEVAL, "sentence to image", "MRR")
    assert mean is not None
    assert (mean.low or 1) <= (mean.value or 0) <= (mean.high or 0)


def test_thresholds_come_from_validation_images(
    usual: Evaluation, checkpoint: Path, data_folder: Path
) -> None:
    one = usual.rows.of(ZERO_SHOT, "Pneumothorax")
    assert one["threshold"] is not None
    assert (one["sensitivity"] or 0) + (one["specificity"] or 0) > 1
    assert one["T"] is not None
    own = [row for row in usual.rows if row.group == "Pneumothorax" and row.ends is not None]
    assert {row.measure for row in own} >= {"AUC", "ACC", "AP", "sensitivity"}
    # The two kinds of validation image are clear and pneumothorax.
    lacking = "thresholds and temperatures: Pleural Effusion: validation images lack a class"
    assert lacking in usual.left_out
    without = replace(QUICK, calibrate=False)
    plain = evaluate(checkpoint, data_folder, prompts=PROMPTS, settings=without)
    assert plain.mean_auc == usual.mean_auc
    every = evaluate(checkpoint, data_folder, split="all", prompts=PROMPTS, settings=QUICK)
    for found in (plain, every):
        assert found.rows.value(ZERO_SHOT, "Pneumothorax", "threshold") is None
    assert any(line.startswith("thresholds and temperatures") for line in every.left_out)


def _case(scores: list[float], truth: Truth, fit: ValidationFit = UNFITTED) -> Case:
    """Of scores that are those of the positive prompt alone."""
    n = len(scores)
    return Case(np.array(scores), np.zeros(n), truth, np.arange(n), n, fit)


def test_measures_of_a_finding_by_hand() -> None:
    fit = fit_validation(np.array([0.0, 2.0]), np.array([False, True]))
    assert fit is not None
    assert fit.threshold == 1.0
    scores = [3.0, 1.0, 1.0, -1.0, 0.5]  # a score at the threshold says absent
    truth = np.array([True, True, False, False, False])
    case = _case(scores, truth, fit)
    rows = Rows()
    found = measure_finding(rows, "X", case, 0)
    own = {row.measure: row for row in rows}
    assert (own["sensitivity"].value, own["specificity"].value) == (0.5, 1.0)
    for name, one in found.items():
        if isinstance(one, Measured):
            assert (own[name].value, own[name].ends) == (one.value, one.interval())
    assert own["sensitivity"].ends == share([True, False]).interval()
    assert own["AUC"].ends == area(case.scores, truth).interval()


def test_scores_are_times_gamma_squared(model: ImageTextModel) -> None:
    regions = torch.nn.functional.normalize(torch.randn(3, 4, model.spec.dimension), dim=-1)
    with torch.inference_mode():
        expected = score_differences(model, regions, prompt_embeddings(model, PROMPTS))
    positive, negative = scorer(model, PROMPTS)(regions)
    assert model.gamma_sq != 1
    np.testing.assert_allclose(positive - negative, expected, atol=1e-4)
