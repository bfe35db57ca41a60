"""Operating points and findings as classes out of predictions, and how a report shows them."""

import csv
import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import ConfigError
from cxrtext.evaluation.classification import zero_shot
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.finding import Drawn
from cxrtext.evaluation.classification.operating import operating_point, sensitivity_threshold
from cxrtext.evaluation.classification.points import YOUDEN, measure_classes, measure_operating
from cxrtext.evaluation.classification.zero_shot import measure_zero_shot
from cxrtext.evaluation.evaluate import evaluate
from cxrtext.evaluation.measure import measure
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.predictions.file import Predictions
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.evaluation.settings import Settings

SETTINGS = Settings(resamples=20, prevalence=0.02, sensitivity=0.9)
F, B = 3, 400


def classified(seed: int = 0) -> Classified:
    """Three findings in 400 images of 200 patients, a third of them for validation."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((F, B)) < 0.3).astype(np.int8)
    names = [f"i{place}" for place in range(B)]
    patients = [f"p{place // 2}" for place in range(B)]
    positive = labels * 2.0 + rng.standard_normal((F, B))
    negative = rng.standard_normal((F, B))
    splits = ["test"] * B
    images = Images(names, names, patients, splits)
    measured = np.arange(B) >= 134
    return Classified(("A", "B", "C"), images, positive, negative, labels, measured)


def test_points_are_those_of_plain_arrays() -> None:
    given = classified()
    scores = measure_zero_shot(given, SETTINGS).scores
    found = measure_operating(given, scores, SETTINGS)
    assert list(found) == ["A", "B", "C"]
    seen, own = ~given.measured, given.measured
    difference, labels = given.scores[1], given.labels[1]
    threshold = sensitivity_threshold(difference[seen], labels[seen], 0.9)
    clusters = [p for p, used in zip(given.images.patients, own, strict=True) if used]
    point = operating_point(difference[own], labels[own], threshold, clusters=clusters)
    youden, other = found["B"]["points"]
    assert youden["chosen"] == YOUDEN
    assert youden["threshold"] == scores["B"].fit.threshold  # type: ignore[union-attr]
    assert (other["chosen"], other["threshold"]) == ("sensitivity 0.9", threshold)
    assert other["sensitivity"]["value"] == point.sensitivity.value
    assert other["sensitivity"]["low"] == point.sensitivity.low
    assert sum(other["counts"].values()) == own.sum()
    assert other["at_prevalence"]["prevalence"] == 0.02
    assert other["at_prevalence"]["ppv"]["value"] < other["ppv"]["value"]
    assert found["B"]["calibration"]["slope"]["value"] == pytest.approx(1, abs=0.5)
    assert len(found["B"]["net_benefit"]["model"]) == 99


def test_without_validation_images_there_are_no_points() -> None:
    given = replace(classified(), measured=np.ones(B, dtype=np.bool_))
    assert measure_operating(given, measure_zero_shot(given, SETTINGS).scores, SETTINGS) == {}


def test_one_patient_has_figures_without_intervals(tmp_path: Path) -> None:
    given = classified()
    images = replace(given.images, patients=["p"] * B)
    about = {
        "checkpoint": "model", "fingerprint": "0" * 64, "data": "data", "split": "test",
        "images": int(given.measured.sum()), "patients": 1, "labeled": True, "prompts": {},
        "settings": replace(SETTINGS, resamples=50).to_dict(), "left_out": {},
    }  # fmt: skip
    found = measure(Predictions(about, {"classification": replace(given, images=images)}))
    assert set(found.classification["A"].intervals) == {"auc", "auc_positive", "auc_negative"}
    low, high = found.classification["A"].intervals["auc"]
    assert high - low > 0.5
    benefit = found.operating["A"]["net_benefit"]
    assert (benefit["low"], benefit["high"]) == ((), ())
    write_report(tmp_path, found)
    assert "Net benefit of A" in (tmp_path / "report.html").read_text()


def test_resamples_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a finding's images are gone when the next finding's are drawn."""
    alive: list[weakref.ref[Drawn]] = []

    class Watched(Drawn):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            assert not any(one() is not None and one() is not self for one in alive[:-1])
            alive.append(weakref.ref(self))

    monkeypatch.setattr(zero_shot, "Drawn", Watched)
    measure_zero_shot(classified(), SETTINGS)
    gc.collect()
    assert len(alive) == F
    assert [one() for one in alive] == [None] * F


def test_classes_are_those_of_images_with_exactly_one() -> None:
    given = classified()
    found, why = measure_classes(given, SETTINGS)
    assert not why
    alone = (given.labels.sum(axis=0) == 1) & given.measured
    assert found["images"] == alone.sum()
    assert found["left out"] == given.measured.sum() - alone.sum()
    truth, best = given.labels[:, alone].argmax(axis=0), given.scores[:, alone].argmax(axis=0)
    assert found["difference"]["accuracy"]["value"] == pytest.approx((truth == best).mean())
    assert found["positive prompt"]["accuracy"]["value"] > found["difference"]["accuracy"]["value"]
    assert list(found["difference"]["precision"]) == ["P@5", "P@10", "P@100"]
    assert np.sum(found["difference"]["confusion"]) == alone.sum()


def test_uncertain_labels_count_as_asked() -> None:
    given = classified()
    labels = given.labels.copy()
    labels[0, labels[0] == 1] = -1
    given = replace(given, labels=labels)
    images = {
        how: measure_classes(given, replace(SETTINGS, uncertain=how))[0]["images"]
        for how in ("ignore", "positive", "negative")
    }
    alone = classified().labels.sum(axis=0) == 1
    assert images["positive"] == (alone & given.measured).sum()
    assert images["ignore"] < images["positive"]
    assert images["negative"] > images["ignore"]


def test_one_finding_is_no_class() -> None:
    given = classified()
    one = replace(
        given,
        findings=("A",),
        positive=given.positive[:1],
        negative=given.negative[:1],
        labels=given.labels[:1],
    )
    assert measure_classes(one, SETTINGS) == (
        {},
        "multi-class accuracy: it is for 2 to 40 findings",
    )


@pytest.mark.parametrize("wrong", [{"sensitivity": 0.0}, {"prevalence": 1.0}, {"prevalence": 5}])
def test_wrong_settings(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"--{name}: "):
        Settings(**wrong)  # type: ignore[arg-type]


def test_a_report_shows_them(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    result = evaluate(checkpoint, data_folder, settings=SETTINGS)
    assert result.operating
    write_report(tmp_path, result, ReportOptions(pictures=False))
    page = (tmp_path / "report.html").read_text()
    assert "Operating points" in page
    assert "Net benefit of" in page
    tables = list((tmp_path / "tables").glob("*.csv"))
    assert any("another-prevalence" in table.name for table in tables)
    for table in tables:  # a program that reads columns by name would lose one of two
        header = next(csv.reader(table.read_text().splitlines()))
        assert len(set(header)) == len(header), table.name
    # Another prevalence wants no model.
    assert result.predictions is not None
    again = measure(result.predictions, prevalence=None)
    assert again.operating.keys() == result.operating.keys()
    assert not next(iter(again.operating.values()))["points"][0]["at_prevalence"]
