"""How rows are compared, and the page of what was measured."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import DataError, WorkError
from cxrtext.experiments.definition import Claim, load_experiment
from cxrtext.experiments.page import interval_text, sections
from cxrtext.experiments.runner import _check_paired as check_paired
from cxrtext.experiments.runs import (
    Finished,
    Measures,
    Run,
    interval_of,
    mean_of_seeds,
    read_measures,
    write_measures,
)
from cxrtext.experiments.table import compare_rows as compare
from cxrtext.experiments.table import group_table, order_of
from cxrtext.metrics.intervals import Measured, area, median_of, precision_of, share
from cxrtext.page import markdown

TABLE1 = load_experiment("table1").groups[0]
MEASURES = {one.name: one for one in TABLE1.measures}


EACH = 0.01 * 0.5**0.5
"""How far each of two patients moves a figure whose deviation is 0.01."""


def one(value: float, *influence: float, rows: str = "images") -> Measured:
    """A figure of two patients, who move all rows alike unless it is said otherwise."""
    return Measured(value, np.array([influence or (0.1, -0.1)]), rows=(rows,))


def row(**values: float) -> Measures:
    return {name: one(value) for name, value in values.items()}


def finished(name: str, shift: float, rows: str = "images") -> Finished:
    values = {"AUC": 0.7, "CNR": 1.25, "MedR": 100.0, "AUC of Edema": 0.7}
    measures = {k: one(v + shift, EACH, -EACH, rows=rows) for k, v in values.items()}
    noted = {"steps": 8, "images": 48, "seconds": 12.3, "machine": "2 cores, CPU"}
    return Finished(Run(name, 0, Path(name), "table1", {}), noted, measures)


compare_rows = partial(compare, measures=MEASURES.values())


def test_ours_stands_beside_the_papers() -> None:
    names = ("lse-nl", "remove-by-text", "dcl-eta-lm")
    rows = [row for row in TABLE1.rows if row.name in names]
    runs = [finished("lse-nl", 0.0), finished("dcl-eta-lm", 0.1)]
    failed = {"remove-by-text": [{"seed": 0, "line": "the loss is not a number at step 3"}]}
    group = group_table(TABLE1, rows, runs, failed, 1)
    base, removed, proposed = group["rows"]
    assert base["difference"] == removed["difference"] == removed["measures"] == {}
    assert list(proposed["difference"]) == ["AUC", "CNR", "MedR"]
    trainings = {one.run.row: {0: one.measures} for one in runs}
    claims = [Claim(better="dcl-eta-lm", worse="lse-nl", measure="AUC")]
    order = order_of(claims, trainings, MEASURES)
    table = {"question": "?", "order": order, "groups": [group], "different": ["all"]}
    page = markdown("", sections(table))
    assert (
        "| DCL-η_LM | 0.800 [0.780, 0.820] | 0.86 | 1.350 [1.330, 1.370] | 1.49 |"
        " 100.1 [100.1, 100.1] | 104 |"
    ) in page
    assert "| remove by text similarity | failed | 0.84 | – | 1.39 |" in page
    assert "| DCL-η_LM | +0.100 [+0.100, +0.100] better | +0.100" in page
    assert "Of 1 pairs of rows that the paper tells apart, 1 have the same" in page
    assert "| dcl-eta-lm | lse-nl | AUC | +0.100 [+0.100, +0.100] | not included | yes |" in page
    assert "| LSE+NL | 0.700 [0.680, 0.720] | 0.876 |" in page
    assert "| DCL-η_LM | 0 | 8 | 48 | 12 | 0.800 | 1.350 |" in page
    assert "- remove-by-text, seed 0: the loss is not a number at step 3" in page


def test_a_row_measured_on_other_images_is_told() -> None:
    first, lacking = finished("lse-nl", 0.0), finished("remove-by-text", 0.0)
    del lacking.measures["CNR"]  # its maps are flat: no reason to leave its other measures out
    check_paired(lacking, [first])
    with pytest.raises(WorkError, match="was measured on other images than lse-nl, seed 0"):
        check_paired(finished("dcl-eta-lm", 0.0, "others"), [first])


def test_measures_come_back_and_damaged_ones_are_said(tmp_path: Path) -> None:
    path, labels = tmp_path / "measures.npz", np.arange(40) < 12
    scores = np.random.default_rng(0).normal(labels)
    kinds = {
        "AUC": area(scores, labels),
        "ACC": share(labels),
        "MedR": median_of(scores),
        "AP": precision_of(scores, labels),
    }
    written = {**finished("lse-nl", 0.0).measures, **kinds}
    write_measures(path, written)
    back = read_measures(path)
    assert list(back) == list(written)
    for name, measure in written.items():
        assert type(back[name]) is type(measure)
        assert (back[name].value, back[name].interval()) == (measure.value, measure.interval())
        np.testing.assert_array_equal(back[name].influence, measure.influence)
    write_measures(path, finished("lse-nl", 1.0).measures)
    assert read_measures(path)["CNR"].rows == back["CNR"].rows  # of the rows, not of the figures
    write_measures(path, finished("lse-nl", 0.0, "others").measures)
    assert read_measures(path)["CNR"].rows != back["CNR"].rows
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"measures.npz: not readable .*remove metrics.json"):
        read_measures(path)


def test_a_difference_is_paired_and_a_smaller_rank_is_better() -> None:
    # Patients move both rows, and not their difference.
    told = compare_rows({0: row(AUC=0.8, MedR=90.0)}, {0: row(AUC=0.7, MedR=100.0)})
    area = told["AUC"]
    assert [area[key] for key in ("value", "low", "high")] == pytest.approx(
        [0.1, 0.1, 0.1], abs=1e-6
    )
    assert (area["verdict"], area["ahead"], area["seeds"]) == ("better", 1, 1)
    assert (told["MedR"]["value"], told["MedR"]["verdict"]) == (pytest.approx(-10), "better")
    assert list(told) == ["AUC", "MedR"]


def test_rows_are_compared_on_the_seeds_that_both_have() -> None:
    both = {0: row(AUC=0.9), 1: row(AUC=0.7), 2: row(AUC=0.5)}
    other = {1: row(AUC=0.6), 2: row(AUC=0.6)}
    told = compare_rows(both, other)["AUC"]
    assert told["value"] == pytest.approx(0.0)  # of seeds 1 and 2
    assert (told["ahead"], told["seeds"], told["training"]) == (1, 2, False)
    third = compare_rows(both, other | {0: row(AUC=0.6)})["AUC"]
    assert (third["low"] < 0, third["training"]) == (True, True)
    # Over the patients alone even a hair is told, but two seeds that disagree tell nothing.
    split = compare_rows({1: row(AUC=0.9), 2: row(AUC=0.59)}, other)["AUC"]
    assert (split["low"] > 0, split["verdict"]) == (True, "not distinguishable")
    assert compare_rows({0: row(AUC=0.9)}, other) == {}
    assert compare_rows(None, other) == {}


def test_seeds_are_averaged_by_the_influence_of_patients() -> None:
    first = {"AUC": one(0.6, 0.2, 0.8), "CNR": one(1.0)}
    mean = mean_of_seeds([first, {"AUC": one(0.8, 0.4, 0.2)}])
    assert list(mean) == ["AUC"]  # what all seeds have
    assert mean["AUC"].value == pytest.approx(0.7)
    np.testing.assert_allclose(mean["AUC"].influence, [[0.3, 0.5]])
    assert interval_of([one(1.0)]) == interval_of([one(1.0)] * 2) == one(1.0).interval()


def test_a_hair_is_no_difference() -> None:
    told = compare_rows({0: row(AUC=0.70002)}, {0: row(AUC=0.7)})["AUC"]
    assert (told["low"] > 0, told["verdict"]) == (True, "not distinguishable")


@pytest.mark.parametrize(("seeds", "least", "most"), [(2, 0, 0.8), (3, 0.93, 1), (5, 0.93, 1)])
def test_three_seeds_give_an_interval_that_includes_training(
    seeds: int, least: float, most: float
) -> None:
    """It holds the mean of all trainings on all patients; that over patients does not."""
    generator, held = np.random.default_rng(0), 0
    for _ in range(300):
        patients = 0.01 * generator.standard_normal()
        values = patients + 0.02 * generator.standard_normal(seeds)
        ends = interval_of([one(v, EACH, -EACH) for v in values])
        assert ends is not None
        held += ends[0] <= 0 <= ends[1]
    assert least <= held / 300 <= most


def test_of_a_single_patient_there_is_no_interval_and_no_claim() -> None:
    first, second = (replace(one(value), degrees=0) for value in (0.8, 0.5))
    told = compare_rows({0: {"AUC": first}}, {0: {"AUC": second}})["AUC"]
    assert (told["low"], told["training"], told["verdict"]) == (None, False, "not distinguishable")
    assert interval_text(told, 3, "+") == "+0.300"


def test_the_papers_order_is_counted_over_its_pairs() -> None:
    def claim(better: str, worse: str) -> Claim:
        return Claim(better=better, worse=worse, measure="AUC")

    claims = [claim("b", "a"), claim("c", "a"), claim("d", "a"), claim("d", "b"), claim("d", "c")]
    areas = zip("abcde", (0.5, 0.6, 0.4, 0.7, 0.9), strict=True)
    rows = {name: {0: row(AUC=area)} for name, area in areas}

    def counts(**changed: Any) -> list[int]:
        order = order_of(claims, rows | changed, MEASURES)
        keys = ("pairs", "agree", "contrary", "agree_clearly", "contrary_clearly")
        return [order[key] for key in keys]

    assert counts() == [5, 4, 1, 4, 1]
    # One whose patients move it by more than it is apart.
    assert counts(d={0: {"AUC": one(0.7, 0.5, -0.5)}}) == [5, 4, 1, 1, 1]
    # On the seeds that both have: with the third c would be ahead of a, which a has not.
    assert counts(c={0: row(AUC=0.4), 1: row(AUC=0.99)}) == [5, 4, 1, 4, 1]
    assert counts(c={3: row(AUC=0.6)}) == [3, 3, 0, 3, 0]
    others = {0: {"AUC": one(0.5, rows="others")}}
    assert counts(a=others) == [2, 2, 0, 2, 0]  # measured on other images
