"""The tasks of an evaluation against plain computations."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.evaluation import CHEX5_PROMPTS, Evaluation, Prompts, Settings, evaluate
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
from cxrtext.evaluation.classification.zero_shot import classify, label_rows
from cxrtext.evaluation.retrieval.sentences import gather_wording
from cxrtext.evaluation.rows import GAP, GROUPS, PROBES, RETRIEVAL, ZERO_SHOT, Rows
from cxrtext.metrics.intervals import Measured, area, share
from cxrtext.metrics.ranking import Floats, Truth, retrieval_metrics
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


def test_the_same_patient_can_be_left_out(checkpoint: Path, data_copy: Path) -> None:
    lines = ["image,study_id,patient_id,split"]
    lines += [f"images/s{i:02d}.png,s{i:02d},one,test" for i in range(6)]
    (data_copy / "manifest.csv").write_text("\n".join(lines) + "\n")
    settings = replace(QUICK, exclude_same_patient=True)
    result = evaluate(checkpoint, data_copy, settings=settings)
    # All wrong candidates are of the one patient.
    assert result.rows.value(RETRIEVAL, "sentence to image", "MedR") == 1
    assert result.rows.value(RETRIEVAL, "image to sentence", "MRR") == 1


def test_scores_and_embeddings_are_averaged_differently(usual: Evaluation) -> None:
    assert usual.details is not None
    model, cohort = usual.details.model, usual.details.cohort
    one, other = (prompts.positive for prompts in PROMPTS.values())

    def scores(positive: tuple[str, ...], average: str) -> Floats:
        settings = Settings(average=average)  # type: ignore[arg-type]
        prompts = {"x": Prompts(positive, ("The lungs are clear.",))}
        found: Floats = classify(model, cohort, prompts, {"s": {"x": 1}}, settings).scores[0]
        return found

    assert np.allclose(scores(one, "scores"), scores(one, "embeddings"), atol=1e-5)
    mean = (scores(one, "scores") + scores(other, "scores")) / 2
    assert np.allclose(scores(one + other, "scores"), mean, atol=1e-5)
    assert not np.allclose(scores(one + other, "embeddings"), mean, atol=1e-3)


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


def test_labels_of_studies() -> None:
    labels: dict[str, dict[str, int | None]]
    labels = {"a": {"Edema": 1}, "b": {"Edema": -1}, "c": {"Edema": None}, "d": {"Edema": 0}}
    rows, truth = label_rows(labels, list("abcde"), "Edema", Settings(uncertain="positive"))
    assert (rows.tolist(), truth.tolist()) == ([0, 1, 3], [True, True, False])


def _case(scores: list[float], truth: Truth, fit: ValidationFit = UNFITTED) -> Case:
    """Of scores that are those of the positive prompt alone."""
    n = len(scores)
    return Case(np.array(scores), np.zeros(n), truth, np.arange(n), n, fit)


def test_a_finding_without_a_class_has_no_curve() -> None:
    truth = np.array([True, True])
    assert fit_validation(np.array([1.0, 2.0]), truth) is None
    rows = Rows()
    found = measure_finding(rows, "X", _case([1.0, -2.0], truth), 3)
    one = rows.of(ZERO_SHOT, "X")
    assert (one["AUC"], one["ACC"], one["left out"]) == (None, 0.5, 3)
    assert "AUC" not in found
    measure_finding(rows, "Y", _case([], truth[:0]), 2)
    empty = rows.of(ZERO_SHOT, "Y")
    assert (empty["ACC"], empty["with"], empty["without"]) == (None, 0, 0)


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
    positive, negative = scorer(model, PROMPTS, QUICK)(regions)
    assert model.gamma_sq != 1
    np.testing.assert_allclose(positive - negative, expected, atol=1e-4)


def test_probes_and_groups(checkpoint: Path, data_folder: Path) -> None:
    settings = Settings(probe=True, slices=("age", "split", "ward"))
    result = evaluate(checkpoint, data_folder, prompts=PROMPTS, settings=settings)
    probe = result.rows.of(PROBES, "Pneumothorax")
    assert (probe["AUC"] or 0) > 0.9
    assert probe["train"] == 28
    assert any(line.startswith("probe: Pleural Effusion") for line in result.left_out)
    assert not result.rows.below(GROUPS)  # twelve images
    assert "slices: ward: the manifest does not say" in result.left_out
    few = evaluate(checkpoint, data_folder, split="val", prompts=PROMPTS, settings=settings)
    assert any(line.startswith("probe: it wants training") for line in few.left_out)


def test_groups_are_measured_where_they_are_large(
    checkpoint: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.evaluation.classification.subgroups.MINIMUM", 4)
    settings = Settings(slices=("age",))
    result = evaluate(checkpoint, data_folder, split="all", prompts=PROMPTS, settings=settings)
    rows, part, measure = result.rows, f"{GROUPS}, age", "AUC of Pleural Effusion"
    assert set(rows.groups(part)) == {"40-59", "60-79", "80 and over", GAP}
    values = {name: rows.value(part, name, measure) for name in rows.groups(part)}
    assert [name for name, value in values.items() if value is None] == ["80 and over"]
    gap = rows.find(part, GAP, measure)
    assert gap is not None
    assert 0 <= (gap.value or 0) <= (gap.high or 0) <= 1


def test_labels_of_other_findings_are_left_out(checkpoint: Path, data_copy: Path) -> None:
    (data_copy / "labels.csv").write_text("study_id,Tuberculosis\ns07,1\ns08,0\n")
    result = evaluate(checkpoint, data_copy, settings=QUICK)
    assert not result.findings
    assert "classification" in result.left_out[0]
    prompts = {"Tuberculosis": CHEX5_PROMPTS["Pneumonia"]}
    found = evaluate(checkpoint, data_copy, prompts=prompts, settings=QUICK)
    assert found.rows.value(ZERO_SHOT, "Tuberculosis", "with") == 1
