"""Operating points and findings as classes out of predictions, and how a report shows them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import ConfigError
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.multiclass import measure_classes
from cxrtext.evaluation.classification.operating import measure_operating, operating_point
from cxrtext.evaluation.classification.zero_shot import measure_zero_shot
from cxrtext.evaluation.evaluate import evaluate
from cxrtext.evaluation.measure import measure
from cxrtext.evaluation.predictions.file import Predictions
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.evaluation.rows import (
    ALL_IMAGES,
    CALIBRATION,
    CLASSES,
    NET_BENEFIT,
    OPERATING,
    YOUDEN,
    ZERO_SHOT,
)
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import Measured
from cxrtext.metrics.ranking import sensitivity_threshold
from tests.evaluation.conftest import images_of_two

SETTINGS = Settings(sensitivity=0.9)
F, B = 3, 400


def classified(seed: int = 0) -> Classified:
    """Three findings in 400 images of 200 patients, a third of them for validation."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((F, B)) < 0.3).astype(np.int8)
    positive = labels * 2.0 + rng.standard_normal((F, B))
    negative = rng.standard_normal((F, B))
    measured = np.arange(B) >= 134
    return Classified(("A", "B", "C"), images_of_two(B), positive, negative, labels, measured)


def test_points_are_those_of_plain_arrays() -> None:
    given = classified()
    scores = measure_zero_shot(given, SETTINGS).scores
    found = measure_operating(given, scores, SETTINGS)
    assert found.below(OPERATING) == [YOUDEN, "sensitivity 0.9"]
    assert found.groups(f"{OPERATING}, {YOUDEN}") == ["A", "B", "C"]
    seen, own = ~given.measured, given.measured
    difference, labels = given.scores[1], given.labels[1]
    threshold = sensitivity_threshold(difference[seen], labels[seen], 0.9)
    clusters = [p for p, used in zip(given.images.patients, own, strict=True) if used]
    point = operating_point(difference[own], labels[own], threshold, patients=clusters)
    youden, other = (found.of(f"{OPERATING}, {how}", "B") for how in found.below(OPERATING))
    assert youden["threshold"] == scores["B"].fit.threshold  # type: ignore[union-attr]
    assert other["threshold"] == threshold
    row = found.find(f"{OPERATING}, sensitivity 0.9", "B", "sensitivity")
    assert row is not None
    own_share = point["sensitivity"]
    assert isinstance(own_share, Measured)
    assert (row.value, row.ends) == (own_share.value, own_share.interval())
    assert sum(other[name] or 0 for name in ("TP", "FP", "FN", "TN")) == own.sum()
    assert found.value(CALIBRATION, "B", "slope") == pytest.approx(1, abs=0.5)
    assert len(found.of(NET_BENEFIT, "B")) == 99


def test_without_validation_images_there_are_no_points() -> None:
    given = replace(classified(), measured=np.ones(B, dtype=np.bool_))
    assert not len(measure_operating(given, measure_zero_shot(given, SETTINGS).scores, SETTINGS))


def test_one_patient_has_figures_without_intervals(tmp_path: Path) -> None:
    given = classified()
    images = replace(given.images, patients=["p"] * B)
    about = {
        "checkpoint": "model", "fingerprint": "0" * 64, "data": "data", "split": "test",
        "images": int(given.measured.sum()), "patients": 1, "labeled": True, "prompts": {},
        "settings": replace(SETTINGS).to_dict(), "left_out": {},
    }  # fmt: skip
    found = measure(Predictions(about, {"classification": replace(given, images=images)}))
    own = [row for row in found.rows if (row.part, row.group) == (ZERO_SHOT, "A") and row.ends]
    assert [row.measure for row in own] == ["AUC", "AUC, positive prompt", "AUC, negative prompt"]
    assert (own[0].high or 0) - (own[0].low or 0) > 0.5
    assert not [row for row in found.rows if row.part == NET_BENEFIT and row.ends]
    write_report(tmp_path, found)
    assert "Net benefit of A" in (tmp_path / "report.html").read_text()


def test_classes_are_those_of_images_with_exactly_one() -> None:
    given = classified()
    found, why = measure_classes(given, SETTINGS)
    assert not why
    alone = (given.labels.sum(axis=0) == 1) & given.measured
    left_out = given.measured.sum() - alone.sum()
    assert found.of(CLASSES, ALL_IMAGES) == {"images": alone.sum(), "left out": left_out}
    truth, best = given.labels[:, alone].argmax(axis=0), given.scores[:, alone].argmax(axis=0)
    difference = found.of(CLASSES, "difference")
    assert difference["accuracy"] == pytest.approx((truth == best).mean())
    alone_by = found.value(CLASSES, "positive prompt", "accuracy")
    assert (alone_by or 0) > (difference["accuracy"] or 1)
    assert list(difference) == ["accuracy", "mean recall", "P@5", "P@10", "P@100"]


def test_uncertain_labels_count_as_asked() -> None:
    given = classified()
    labels = given.labels.copy()
    labels[0, labels[0] == 1] = -1
    given = replace(given, labels=labels)
    ignored, positive, negative = (
        measure_classes(given, replace(SETTINGS, uncertain=how))[0].count(
            CLASSES, ALL_IMAGES, "images"
        )
        for how in ("ignore", "positive", "negative")
    )
    alone = classified().labels.sum(axis=0) == 1
    assert ignored < positive == (alone & given.measured).sum()
    assert negative > ignored


def test_one_finding_is_no_class() -> None:
    given = classified()
    own = (given.positive[:1], given.negative[:1], given.labels[:1], given.measured)
    one = Classified(("A",), given.images, *own)
    rows, why = measure_classes(one, SETTINGS)
    assert (len(rows), why) == (0, "multi-class accuracy: it is for 2 to 40 findings")


@pytest.mark.parametrize(
    ("name", "value"),
    [("sensitivity", 0.0), ("average", "mean"), ("uncertain", "maybe")],
)
def test_wrong_settings(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name}: .*{value}"):
        Settings(**{name: value})


def test_a_report_shows_them(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    result = evaluate(checkpoint, data_folder, settings=SETTINGS)
    assert result.rows.below(OPERATING)
    write_report(tmp_path, result, ReportOptions(pictures=False))
    assert "Net benefit" in (tmp_path / "report.html").read_text()
    # Another sensitivity wants no model.
    assert result.predictions is not None
    again = measure(result.predictions, sensitivity=0.8)
    assert again.rows.below(OPERATING) == [YOUDEN, "sensitivity 0.8"]
