"""Rows of the experiments, how they are compared, and the page of what was measured."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.config import Config, first_difference, load_config
from cxrtext.errors import DataError, WorkError
from cxrtext.experiments import ExperimentOptions
from cxrtext.experiments.experiment import Measure, Trial, choose, claims_of
from cxrtext.experiments.page import sections
from cxrtext.experiments.papers.sweep import SWEEP
from cxrtext.experiments.papers.table1 import BY_FINDING, MEASURES, PAPER_TABLE, SCALES, TABLE1
from cxrtext.experiments.preparation import Prepared
from cxrtext.experiments.processes import Finished, Run
from cxrtext.experiments.runner import check_run, read_finished, require_finished
from cxrtext.experiments.stages import (
    Measures,
    interval_of,
    mean_of_seeds,
    read_measures,
    write_measures,
)
from cxrtext.experiments.table import compare_rows as compare
from cxrtext.experiments.table import interval_text, order_of
from cxrtext.experiments.table1 import Table1, plan, recipe_of
from cxrtext.files import write_sealed
from cxrtext.metrics.intervals import Measured, area, median_of, precision_of, share
from cxrtext.page import markdown

ROWS = ("lse-nl", "dcl-eta-lm", "remove-by-text")
KIND = Table1(ExperimentOptions("paper", rows=ROWS))


def metrics(name: str) -> dict[str, Any]:
    return {
        "format": 3,
        "evaluation": {
            "images": 40,
            "patients": 30,
            "split": "test",
            "settings": {},
            "results": [
                {"part": part, "group": group, "measure": measure, "value": value}
                for part, group, measure, value in (
                    ("zero-shot classification", "Edema", "with", 9),
                    ("zero-shot classification", "Edema", "without", 31),
                    ("zero-shot classification", "Pneumonia", "with", 0),
                    ("zero-shot classification", "Pneumonia", "without", 40),
                    ("grounding", "mean of sentences", "sentences", 25),
                    ("retrieval of boxes", "both directions", "pairs", 26),
                )
            ],
            "left_out": ["retrieval: the data have no reports of these studies"],
        },
        "configuration": {
            "data": {"manifest": f"somewhere/{name}", "resize": 64},
            "model": {"similarity": "lse+nl", "text": "elsewhere"},
            "objective": {"name": name},
            "training": {"steps": 8, "batch": 4, "sentences": 2, "lr": 0.001, "seed": 0},
            "out": name,
        },
        "budget": {"steps": 8, "images": 48, "seconds": 12.3},
        "machine": "2 cores, CPU",
        "threads": 1,
        "versions": {"cxrtext": "1"},
    }


def measures(shift: float, rows: str = "images") -> Measures:
    values = {"AUC": 0.7, "CNR": 1.25, "MedR": 100.0, "AUC of Edema": 0.7}
    shifted = {name: value + shift for name, value in values.items()}
    return {
        name: Measured(one, np.array([[0.008, -0.006]]), rows=(rows,))
        for name, one in shifted.items()
    }


def finished(folder: Path, name: str, shift: float) -> Finished:
    return Finished(Run(name, 0, folder / name, 8), metrics(name), measures(shift))


def write(one: Finished) -> Run:
    write_measures(one.run.folder / "resampled.npz", one.measures)
    write_sealed(one.run.folder / "metrics.json", one.metrics)
    return one.run


def page_of(table: dict[str, Any]) -> str:
    heading = {**KIND.source(), "seeds": 1, "machine": "2 cores, CPU", "versions": "cxrtext 1"}
    table = json.loads(json.dumps({**heading, **table}, allow_nan=False))
    title, head = KIND.page(table)
    return markdown(title, sections(table), head)


def test_ours_stands_beside_the_papers(tmp_path: Path) -> None:
    runs = [finished(tmp_path, "lse-nl", 0.0), finished(tmp_path, "dcl-eta-lm", 0.1)]
    failed = {"remove-by-text": [{"seed": 0, "line": "the loss is not a number at step 3"}]}
    table = KIND.table(runs, failed)
    (group,) = table["groups"]
    base, removed, proposed = group["rows"]
    assert [row["name"] for row in group["rows"]] == ["lse-nl", "remove-by-text", "dcl-eta-lm"]
    assert base["difference"] == removed["difference"] == removed["measures"] == {}
    assert list(proposed["difference"]) == ["AUC", "CNR", "MedR"]
    page = page_of(table)
    # Two patients move each figure by 0.008 and −0.006: a deviation of 0.01.
    assert (
        "| DCL-η_LM | 0.800 [0.780, 0.820] | 0.86 | – | 0.72 | 1.350 [1.330, 1.370] | 1.49 | – |"
        " 0.20 | – | 0.30 | 100.1 [100.1, 100.1] | 104 |"
    ) in page
    assert "| remove by text similarity | failed | 0.84 | – | 0.72 | – | 1.39 |" in page
    assert "| DCL-η_LM | +0.100 [+0.100, +0.100] better; paper +0.07 | –; paper +0.07 |" in page
    assert "Of 1 pairs of rows that the paper tells apart, 1 stand in the same" in page
    assert "tau 1.00)" in page
    assert "| LSE+NL | 0.700 [0.680, 0.720] | 0.876 |" in page
    assert "- AUC: no images with or none without Pneumonia" in page
    assert "- Recall: 26 boxes are too few for its cut-offs" in page
    assert "| DCL-η_LM | 0 | 8 | 48 | 12 | 1 | 0.800 | – | 1.350 |" in page


def test_a_row_measured_on_other_images_is_told(tmp_path: Path) -> None:
    one, other = finished(tmp_path, "lse-nl", 0.0), finished(tmp_path, "dcl-eta-lm", 0.0)
    lacking = finished(tmp_path, "remove-by-text", 0.0)
    del lacking.measures["CNR"]  # its maps are flat: no reason to leave its other measures out
    runs = [write(one), write(Finished(other.run, other.metrics, measures(0.0, "others")))]
    done, failures = read_finished([*runs, write(lacking)])
    assert [each.run.row for each in done] == ["lse-nl", "remove-by-text"]
    assert "was measured on other images than lse-nl, seed 0" in failures["dcl-eta-lm", 0]


def test_measures_come_back_and_damaged_ones_are_said(tmp_path: Path) -> None:
    run = write(finished(tmp_path, "lse-nl", 0.0))
    path = run.folder / "resampled.npz"
    back = read_measures(path)
    assert list(back) == list(measures(0.0))
    for name, one in measures(0.0).items():
        assert back[name].value == one.value
        np.testing.assert_array_equal(back[name].influence, one.influence)
    labels = np.arange(40) < 12
    scores = np.random.default_rng(0).normal(labels)
    kinds = {
        "AUC": area(scores, labels),
        "ACC": share(labels),
        "MedR": median_of(scores),
        "AP": precision_of(scores, labels),
    }
    write_measures(path, kinds)
    for name, one in read_measures(path).items():
        assert type(one) is type(kinds[name])
        assert (one.value, one.interval()) == (kinds[name].value, kinds[name].interval())
    write_measures(path, measures(1.0))
    assert read_measures(path)["AUC"].rows == back["AUC"].rows  # of the rows, not of the figures
    write_measures(path, measures(0.0, "others"))
    assert read_measures(path)["AUC"].rows != back["AUC"].rows
    path.write_bytes(path.read_bytes()[:200])
    done, failures = read_finished([run])
    assert not done
    assert "remove its folder's metrics.json" in failures["lse-nl", 0]


def test_where_nothing_is_measured_it_is_said_why(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="every row failed; the first, lse-nl: no memory"):
        require_finished([], {"lse-nl": [{"seed": 0, "line": "no memory"}]})
    one = finished(tmp_path, "lse-nl", 0.0)
    with pytest.raises(DataError, match="nothing could be measured .retrieval: the data have no"):
        KIND.table([Finished(one.run, one.metrics, {})], {})


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("manifest", "labels", "labels_from_reports", "truth"):
        (data / f"{name}.csv").write_text("study_id\n")
    (data / "phantom.json").write_text("{}")
    model = tmp_path / "language-model"
    model.mkdir()
    return Prepared(
        data, data / "manifest.csv", tmp_path / "s.csv", str(model), tmp_path / "decoded", {}
    )


def budget(config: Config) -> dict[str, Any]:
    """What compared rows must share: all but objective, similarity, language loss and seed."""
    kept = recipe_of(config.model_dump(mode="json"))
    del kept["objective"], kept["model"]["similarity"]
    del kept["training"]["seed"], kept["training"]["mlm_weight"]
    return kept


@pytest.mark.parametrize("scale", list(SCALES))
def test_every_row_is_valid_and_has_the_same_budget(
    scale: str, prepared: Prepared, tmp_path: Path
) -> None:
    rows, usual = PAPER_TABLE.trials(SCALES[scale])
    assert {row.name for row in usual} <= {row.name for row in rows}
    runs, missing = plan(rows, 2, tmp_path / "out", prepared, SCALES[scale])
    assert not missing
    assert len(runs) == len({run.folder for run in runs}) == 2 * len(rows)
    kind = Table1(ExperimentOptions(scale))
    assert [check_run(kind, run) for run in runs] == [None] * len(runs)
    assert not any(run.is_done() for run in runs)
    configs: list[Config] = [load_config(run.folder / "train.yaml") for run in runs]
    live = [run.row.startswith("live-") for run in runs]
    for column in {*live}:
        some = [config for config, one in zip(configs, live, strict=True) if one == column]
        assert {first_difference(budget(some[0]), budget(one), shared=True) for one in some} == {
            None
        }
    for run, config, moving in zip(runs, configs, live, strict=True):
        locked = SCALES[scale].columns and not moving
        assert config.training.lock == (("image", "text") if locked else ())
        assert config.training.seed == run.seed
        assert config.out.resolve() == (run.folder / "train").resolve()
        assert config.data.manifest.resolve() == prepared.manifest.resolve()
        assert Path(config.model.text).resolve() == Path(prepared.language_model).resolve()
        assert config.model.similarity == ("global" if run.row.endswith("biovil") else "lse+nl")
    by_name = {run.row: config for run, config in zip(runs, configs, strict=True)}
    chosen = {name: config.objective.model_dump() for name, config in by_name.items()}
    assert chosen["dcl-eta-0.1"]["eta"] == 0.1
    assert chosen["biovil"]["symmetric"]
    resampled = by_name["resample-by-text"]
    assert 2 * chosen["resample-by-text"]["keep"] == resampled.training.batch
    labels = chosen["remove-by-labels"]["labels"]
    assert labels is not None
    assert labels.name == "labels_from_reports.csv"


@pytest.mark.parametrize("scale", list(SCALES))
def test_every_row_of_the_sweep_is_valid(scale: str, prepared: Prepared, tmp_path: Path) -> None:
    rows, usual = SWEEP.trials(SCALES[scale])
    kind = Table1(ExperimentOptions(scale), SWEEP)
    runs, missing = plan(rows, 1, tmp_path / "out", prepared, SCALES[scale])
    assert (missing, {check_run(kind, run) for run in runs}) == ({}, {None})
    configs = {run.row: load_config(run.folder / "train.yaml") for run in runs}
    base, others = budget(configs["lse-nl"]), [budget(configs[row.name]) for row in usual]
    assert {first_difference(base, other, shared=True) for other in others} == {None}
    assert configs["dcl-eta-lm-0.1-0.5"].data.sentences.name == "s-0.1-0.5.csv"
    assert configs["dcl-eta-lm"].data.sentences.name == "s.csv"


def test_rows_stand_in_the_order_of_the_table() -> None:
    chosen = [row.name for row in choose(TABLE1, ["dcl-eta-lm", "biovil"])]
    assert chosen == ["biovil", "dcl-eta-lm"]
    assert choose(TABLE1, None) == TABLE1
    for row in TABLE1:
        assert {*row.paper} - {one.name for one in BY_FINDING} in ({*MEASURES}, set())


def one(value: float, *influence: float) -> Measured:
    """A figure of two patients, who move all rows alike unless it is said otherwise."""
    return Measured(value, np.array([influence or (0.1, -0.1)]), rows=("images",))


def row(**values: float) -> Measures:
    return {name: one(value) for name, value in values.items()}


compare_rows = partial(compare, measures=MEASURES.values())


def paper_order(
    rows: dict[str, Measures], paper: dict[str, dict[str, float]]
) -> dict[str, Any] | None:
    trials = [Trial(name, name, {}, figures) for name, figures in paper.items() if name in rows]
    trainings = {name: {0: measures} for name, measures in rows.items()}
    return order_of(claims_of(trials, [Measure("AUC")]), trainings, MEASURES)


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


def test_an_interval_that_holds_0_tells_nothing() -> None:
    wide = {0: {"AUC": one(0.8, 0.1, -0.05)}}
    fixed = {0: {"AUC": one(0.7, 0.0, 0.0)}}
    told = compare_rows(wide, fixed)["AUC"]
    assert told["low"] < 0 < told["high"]
    assert told["verdict"] == "not distinguishable"
    same = compare_rows(wide, wide)["AUC"]
    assert [same[key] for key in ("value", "low", "high")] == pytest.approx([0, 0, 0], abs=1e-6)
    assert (same["verdict"], same["ahead"]) == ("not distinguishable", 0)


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
        ends = interval_of([one(v, 0.008, -0.006) for v in values])
        assert ends is not None
        held += ends[0] <= 0 <= ends[1]
    assert least <= held / 300 <= most


def test_of_a_single_patient_there_is_no_interval_and_no_claim() -> None:
    first, second = (replace(one(value), degrees=0) for value in (0.8, 0.5))
    told = compare_rows({0: {"AUC": first}}, {0: {"AUC": second}})["AUC"]
    assert (told["low"], told["training"], told["verdict"]) == (None, False, "not distinguishable")
    assert interval_text(told, 3, "+") == "+0.300"


def test_the_papers_order_is_counted_over_its_pairs() -> None:
    paper = {"a": {"AUC": 0.7}, "b": {"AUC": 0.8}, "c": {"AUC": 0.8}, "d": {"AUC": 0.9}, "e": {}}
    areas = zip("abcde", (0.5, 0.6, 0.4, 0.7, 0.9), strict=True)
    rows = {name: row(AUC=area) for name, area in areas}
    # b and c are equal in the paper; of the five other pairs only a and c are turned round.
    order = paper_order(rows, paper)
    assert order is not None
    assert (order["pairs"], order["agree"], order["contrary"]) == (5, 4, 1)
    assert (order["agree_clearly"], order["contrary_clearly"]) == (4, 1)
    assert order["tau"] == pytest.approx(0.6)
    rows["d"] = {"AUC": one(0.7, 0.4, 0.4)}  # it may lie below the others
    told = paper_order(rows, paper)
    assert told is not None
    assert (told["agree"], told["agree_clearly"]) == (4, 1)
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
