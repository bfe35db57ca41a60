"""Rows compared on shared resamples, against cases worked out by hand."""

from typing import Any

import numpy as np
import pytest

from cxrtext.evaluation.intervals.bootstrap import Resampled
from cxrtext.evaluation.intervals.comparison import estimate_of
from cxrtext.experiments.comparison import Trainings, interval_text, order_of
from cxrtext.experiments.comparison import compare_rows as compare
from cxrtext.experiments.experiment import Measure, Trial, claims_of
from cxrtext.experiments.measures import Measures, mean_of_seeds
from cxrtext.experiments.papers.table1 import MEASURES
from cxrtext.experiments.questions import (
    answer_questions,
    by_verdict,
    direction,
    helps,
    trade,
)

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
    return order_of(claims_of(trials, [Measure("AUC")]), rows, MEASURES)


def found(**verdicts: str) -> dict[str, dict[str, str]]:
    return {name: {"verdict": verdict} for name, verdict in verdicts.items()}


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


def test_verdicts_in_words() -> None:
    told = found(AUC="better", ACC="not distinguishable", CNR="better", MedR="worse")
    assert by_verdict(told) == (
        "better in AUC, CNR; worse in MedR; not distinguishable in ACC; "
        "not measured in mIoU, Recall"
    )
    assert by_verdict({}) == "not measured"


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        (("better", "not distinguishable"), "better"),
        (("worse", "worse"), "worse"),
        (("better", "worse"), "better in some and worse in others"),
        (("not distinguishable", "not distinguishable"), "not distinguishable"),
    ],
)
def test_measures_together(verdicts: tuple[str, str], says: str) -> None:
    assert direction(found(AUC=verdicts[0], ACC=verdicts[1]), ("AUC", "ACC")) == says
    assert direction({}, ("AUC", "ACC")) == "not measured"


TIED = "not distinguishable"


@pytest.mark.parametrize(
    ("area", "recall", "trades", "helped"),
    [
        ("better", "worse", "a trade", "helps classification only, at the cost of the others"),
        ("worse", "better", "a trade", "helps elsewhere, classification worse"),
        ("better", "better", "no trade, better in both", "helps classification and more"),
        ("better", TIED, "no trade shown", "helps classification, no help shown elsewhere"),
        (TIED, "worse", "no trade shown", "no help shown"),
        ("worse", "worse", "no trade, worse in both", "no help shown, classification worse"),
    ],
)
def test_trades_and_help(area: str, recall: str, trades: str, helped: str) -> None:
    told = found(AUC=area, ACC=TIED, CNR=TIED, mIoU=TIED, Recall=recall, MedR=TIED)
    assert trade(told) == trades
    assert helps(told) == helped
    assert trade(found(AUC=area)) == helps(found(AUC=area)) == "not measured"


def test_the_three_questions() -> None:
    def like(area: float, recall: float) -> Trainings:
        values = dict.fromkeys(MEASURES, 0.5) | {"AUC": area, "Recall": recall}
        return {0: row(**values)}

    rows = {
        "lse-nl": like(0.5, 0.5),
        "dcl-eta-0.05": like(0.6, 0.6),
        "dcl-eta-0.1": like(0.7, 0.4),
        "dcl-eta-lm": like(0.8, 0.6),
        "remove-by-text": like(0.7, 0.5),
    }
    first, second, third = answer_questions(rows)
    assert first["answer"] == ("better in AUC, Recall; not distinguishable in ACC, CNR, mIoU, MedR")
    assert first["lines"][0] == "AUC: +0.300 [+0.300, +0.300], p = 0.500: better"
    assert len(first["lines"]) == 6
    assert second["answer"] == (
        "a trade: η = 0.1 against η = 0.05, η = 0.1 against LSE+NL; "
        "no trade, better in both: η = 0.05 against LSE+NL; "
        "no trade shown: η = 0.05 against DCL-η_LM; "
        "no trade, worse in both: η = 0.1 against DCL-η_LM"
    )
    assert second["lines"][0] == (
        "η = 0.1 against η = 0.05: better in AUC; worse in Recall; not distinguishable in ACC, "
        "CNR, mIoU, MedR – a trade"
    )
    assert third["answer"] == (
        "not measured: remove by CheX5 labels, resample by text similarity, reweight by text "
        "similarity; helps classification, no help shown elsewhere: remove by text similarity"
    )
    assert third["lines"][0] == "remove by CheX5 labels against LSE+NL: not measured"
    assert third["lines"][6].startswith(
        "DCL-η_LM against remove by text similarity: better in AUC, Recall; not dist"
    )
