from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cxrtext.evaluation import compare
from cxrtext.evaluation.classification.zero_shot import rows_digest
from cxrtext.evaluation.comparison import verdict_of
from cxrtext.evaluation.measure import few_patients
from cxrtext.evaluation.report.comparison import model_names
from cxrtext.metrics.intervals import Measured, area, average, difference, median_of


def measures(better: float, positives: int = 60) -> dict[str, Measured]:
    """Two findings of 300 images by a model that is better by so much, and a mean rank."""
    generator = np.random.default_rng(0)
    codes, truth = np.arange(300) // 2, np.arange(300) < positives
    errors = generator.normal(size=(2, 300))
    areas = [area(one + (1.5 + better) * truth, truth, codes, 150) for one in errors]
    ranks = generator.normal(900, 100, size=300)
    return {
        "MedR": replace(median_of(ranks - 400 * better, codes), rows=("all",)),
        "AUC": replace(average(areas), rows=("all",)),
        **{f"AUC of {n}": replace(one, rows=(n,)) for n, one in zip("XY", areas, strict=True)},
    }


def test_the_primary_measure_stands_first_and_the_others_are_adjusted() -> None:
    first, second = measures(0.0), measures(0.25)
    found = compare({"a": first, "b": second})
    names = [one.measure for one in found.differences]
    assert names == ["AUC", "MedR", "AUC of X", "AUC of Y"]
    main, *others = found.differences
    expected = difference(second["AUC"], first["AUC"])
    assert expected is not None
    assert (main.low, main.high) == (expected.low, expected.high)
    assert main.adjusted_p == main.p_value  # one pair of models
    smallest = min(others, key=lambda one: one.p_value)
    assert smallest.adjusted_p == pytest.approx(3 * smallest.p_value)
    assert all(one.adjusted_p >= one.p_value for one in others)
    ranks = compare({"a": first, "b": second}, primary="MedR")
    assert ranks.differences[0].measure == "MedR"
    three = compare({"a": first, "b": second, "c": measures(0.1)})
    assert [one.measure for one in three.differences[:3]] == ["AUC"] * 3
    assert max(one.adjusted_p / one.p_value for one in three.differences[:3]) == pytest.approx(3)


def test_what_cannot_be_compared_is_said() -> None:
    first, second = measures(0.0), measures(0.1)
    second["AUC"] = replace(second["AUC"], rows=("others",))
    del second["MedR"]
    found = compare({"a": first, "b": second}, primary="CNR")
    assert [line.split(": ")[-1] for line in found.left_out[1:]] == [
        "one of them was not measured",
        "measured on other images or boxes",
    ]
    assert found.left_out[0].startswith("the primary measure, CNR, was not measured")
    assert rows_digest([["a"], [1]]) != rows_digest([["b"], [1]])


def test_findings_of_few_patients_are_named() -> None:
    assert few_patients(measures(0.0)) == []  # 30 patients with two images each
    lines = few_patients(measures(0.0, positives=20))
    assert len(lines) == 2
    assert lines[0].startswith("X: 20 images of 10 patients with it, fewer than 25 patients")
    without = few_patients(measures(0.0, positives=290))
    assert "10 images of 5 patients without it" in without[0]


def test_a_difference_has_to_be_as_large_as_counts() -> None:
    assert verdict_of("AUC", 0.004, (0.001, 0.007)) == "not distinguishable"
    assert verdict_of("AUC", 0.006, (0.001, 0.011)) == "better"
    assert verdict_of("AUC", 0.006, (-0.001, 0.013)) == "not distinguishable"
    assert verdict_of("CNR", -0.01, (-0.015, -0.005)) == "not distinguishable"
    assert verdict_of("MedR", -2.0, (-3.0, -1.0)) == "better"


def test_what_holm_does_not_confirm_is_not_better() -> None:
    generator, truth = np.random.default_rng(3), np.arange(300) < 60
    models = {
        name: {
            f"AUC of {number}": replace(
                area(generator.normal(size=300) + truth, truth), rows=("x",)
            )
            for number in range(40)
        }
        for name in "ab"
    }
    found = compare(models).differences
    assert min(one.p_value for one in found) < 0.05
    assert {one.verdict for one in found if one.adjusted_p >= 0.05} == {"not distinguishable"}


def test_models_are_named_by_their_projects(tmp_path: Path) -> None:
    names = "one/evaluation/predictions.parquet", "two/run/checkpoint-best", "three/other"
    assert model_names([tmp_path / name for name in names]) == ["one", "two", "other"]
    assert model_names([tmp_path / "a/evaluation"] * 2) == ["1-a", "2-a"]
