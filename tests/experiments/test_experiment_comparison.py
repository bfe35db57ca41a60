"""Rows compared on shared resamples, against cases worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cxrtext.evaluation.intervals.bootstrap import Resampled
from cxrtext.evaluation.intervals.comparison import estimate_of
from cxrtext.experiments.experiment import Measure, Trial, claims_of
from cxrtext.experiments.measures import Measures, mean_of_seeds
from cxrtext.experiments.papers.table1 import MEASURES
from cxrtext.experiments.table import Trainings, interval_text, order_of
from cxrtext.experiments.table import compare_rows as compare

SWING = np.array([0.0, -0.1, 0.1])
"""What all rows have in common from one resample to the next."""


def one(value: float, values: np.ndarray | None = None) -> Resampled:
    return Resampled(value, value + SWING if values is None else values, ("images",))


def row(**values: float) -> Measures:
    return {name: one(value) for name, value in values.items()}


def compare_rows(first: Trainings | None, second: Trainings | None) -> dict[str, dict[str, Any]]:
    return compare(first, second, MEASURES.values())


def paper_order(
    rows: dict[str, Measures], paper: dict[str, dict[str, float]]
) -> dict[str, Any] | None:
    trials = [Trial(name, name, {}, figures) for name, figures in paper.items() if name in rows]
    trainings = {name: {0: measures} for name, measures in rows.items()}
    return order_of(claims_of(trials, [Measure("AUC")]), trainings, MEASURES)


def test_a_difference_is_paired_and_a_smaller_rank_is_better() -> None:
    # Both rows swing with the resample, their difference does not.
    told = compare_rows({0: row(AUC=0.8, MedR=90.0)}, {0: row(AUC=0.7, MedR=100.0)})
    area = told["AUC"]
    assert [area[key] for key in ("value", "low", "high")] == pytest.approx([0.1, 0.1, 0.1])
    assert area["p"] == pytest.approx(2 * 1 / 4)  # no difference at or below 0, three resamples
    assert (area["verdict"], area["ahead"], area["seeds"]) == ("better", 1, 1)
    assert (told["MedR"]["value"], told["MedR"]["verdict"]) == (pytest.approx(-10), "better")
    assert list(told) == ["AUC", "MedR"]


def test_an_interval_that_holds_0_tells_nothing() -> None:
    wide = {0: {"AUC": one(0.8, np.linspace(0.5, 0.9, 21))}}
    fixed = {0: {"AUC": one(0.7, np.full(21, 0.7))}}
    told = compare_rows(wide, fixed)["AUC"]
    assert told["low"] < 0 < told["high"]
    assert told["verdict"] == "not distinguishable"
    same = compare_rows(wide, wide)["AUC"]
    assert [same[key] for key in ("value", "low", "high", "p")] == [0, 0, 0, 1]
    assert (same["verdict"], same["ahead"]) == ("not distinguishable", 0)


def test_rows_are_compared_on_the_seeds_that_both_have() -> None:
    both = {0: row(AUC=0.9), 1: row(AUC=0.7), 2: row(AUC=0.5)}
    other = {1: row(AUC=0.6), 2: row(AUC=0.6)}
    told = compare_rows(both, other)["AUC"]
    assert told["value"] == pytest.approx(0.0)  # of seeds 1 and 2
    assert (told["ahead"], told["seeds"]) == (1, 2)
    assert compare_rows({0: row(AUC=0.9)}, other) == {}
    assert compare_rows(None, other) == {}


def test_seeds_are_averaged_within_each_resample() -> None:
    first = {"AUC": one(0.6, np.array([0.2, 0.8])), "CNR": one(1.0)}
    mean = mean_of_seeds([first, {"AUC": one(0.8, np.array([0.4, 0.2]))}])
    assert list(mean) == ["AUC"]  # what all seeds have
    assert mean["AUC"].estimate == pytest.approx(0.7)
    np.testing.assert_allclose(mean["AUC"].values, [0.3, 0.5])


def test_the_mean_of_seeds_has_the_interval_of_so_many_patients() -> None:
    few = Resampled(1.0, np.linspace(0.8, 1.2, 41), ("images",), None, 8)
    own = replace(few, ends=(0.7, 1.1))
    assert mean_of_seeds([{"CNR": few}])["CNR"].interval() == few.interval()
    assert mean_of_seeds([{"CNR": few}] * 2)["CNR"].interval() == pytest.approx(few.interval())
    assert few.interval() != pytest.approx(replace(few, patients=None).interval())
    assert mean_of_seeds([{"CNR": own}])["CNR"].interval() == (0.7, 1.1)
    assert mean_of_seeds([{"CNR": own}, {"CNR": few}])["CNR"].ends is None


def test_without_resamples_there_is_no_interval_and_no_claim() -> None:
    first, second = one(0.8, np.empty(0)), one(0.5, np.empty(0))
    assert estimate_of(first) == {"value": 0.8, "low": None, "high": None}
    told = compare_rows({0: {"AUC": first}}, {0: {"AUC": second}})["AUC"]
    assert (told["low"], told["p"], told["verdict"]) == (None, None, "not distinguishable")
    assert interval_text(told, 3, "+") == "+0.300"


def test_the_papers_order_is_counted_over_its_pairs() -> None:
    paper = {"a": {"AUC": 0.7}, "b": {"AUC": 0.8}, "c": {"AUC": 0.8}, "d": {"AUC": 0.9}, "e": {}}
    rows = {
        "a": {"AUC": one(0.5)},
        "b": {"AUC": one(0.6)},
        "c": {"AUC": one(0.4)},
        "d": {"AUC": one(0.7)},
        "e": {"AUC": one(0.9)},
    }
    # b and c are equal in the paper; of the five other pairs only a and c are turned round.
    order = paper_order(rows, paper)
    assert order is not None
    assert (order["pairs"], order["agree"], order["contrary"]) == (5, 4, 1)
    assert (order["agree_clearly"], order["contrary_clearly"]) == (4, 1)
    assert [order[key] for key in ("tau", "low", "high")] == pytest.approx([0.6] * 3)
    rows["d"] = {"AUC": one(0.7, np.array([0.7, 0.0, 0.8]))}  # below the others in one of three
    told = paper_order(rows, paper)
    assert told is not None
    assert (told["agree"], told["agree_clearly"]) == (4, 1)
    assert told["low"] < told["tau"] == told["high"] == pytest.approx(0.6)
    assert paper_order({"a": rows["a"], "e": rows["e"]}, paper) is None


def test_the_papers_order_is_of_the_seeds_that_both_rows_have() -> None:
    trials = [Trial("a", "a", {}, {"AUC": 0.7}), Trial("b", "b", {}, {"AUC": 0.8})]
    claims = claims_of(trials, [Measure("AUC")])
    # With the third training a would be ahead, which b has not.
    rows = {
        "a": {0: row(AUC=0.5), 1: row(AUC=0.5), 2: row(AUC=0.99)},
        "b": {0: row(AUC=0.6), 1: row(AUC=0.6)},
    }
    order = order_of(claims, rows, MEASURES)
    assert order is not None
    assert (order["agree"], order["claims"][0]["value"]) == (1, pytest.approx(0.1))
    assert order_of(claims, {**rows, "b": {3: row(AUC=0.6)}}, MEASURES) is None
