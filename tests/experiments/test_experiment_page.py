"""The table's text from given measures and metrics."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.evaluation.intervals.bootstrap import Resampled
from cxrtext.experiments.experiment import choose
from cxrtext.experiments.measures import Measures, read_measures, write_measures
from cxrtext.experiments.page import sections
from cxrtext.experiments.papers.table1 import TABLE1
from cxrtext.experiments.processes import Finished, Run
from cxrtext.experiments.runner import read_finished, require_finished
from cxrtext.experiments.table1 import build_table, head
from cxrtext.files import write_sealed
from cxrtext.page import markdown

ROWS = choose(TABLE1, ["lse-nl", "dcl-eta-lm", "remove-by-text"])


def metrics(name: str) -> dict[str, Any]:
    return {
        "format": 3,
        "evaluation": {
            "images": 40,
            "patients": 30,
            "split": "test",
            "settings": {"resamples": 3},
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
    swing = np.array([-0.02, 0.0, 0.02])
    return {
        name: Resampled(value + shift, value + shift + swing, (rows,))
        for name, value in values.items()
    }


def finished(folder: Path, name: str, shift: float) -> Finished:
    return Finished(Run(name, 0, folder / name, 8), metrics(name), measures(shift))


def write(one: Finished) -> Run:
    write_measures(one.run.folder / "resampled.npz", one.measures)
    write_sealed(one.run.folder / "metrics.json", one.metrics)
    return one.run


def page_of(table: dict[str, Any]) -> str:
    heading = {
        "scale": "smoke",
        "source": "drawn studies",
        "question": "which?",
        "seeds": 1,
        "machine": "2 cores, CPU",
        "versions": "cxrtext 1",
        "figures": [],
        "left_out": [],
    }
    table = json.loads(json.dumps({**heading, **table}, allow_nan=False))
    return markdown("Table 1", sections(table, Path()), head(table))


def test_ours_stands_beside_the_papers(tmp_path: Path) -> None:
    runs = [finished(tmp_path, "lse-nl", 0.0), finished(tmp_path, "dcl-eta-lm", 0.1)]
    failed = {"remove-by-text": [{"seed": 0, "line": "the loss is not a number at step 3"}]}
    table = build_table(ROWS, runs, failed)
    (group,) = table["groups"]
    base, removed, proposed = group["rows"]
    assert [row["name"] for row in group["rows"]] == ["lse-nl", "remove-by-text", "dcl-eta-lm"]
    assert base["difference"] == removed["difference"] == removed["measures"] == {}
    assert list(proposed["difference"]) == ["AUC", "CNR", "MedR"]
    page = page_of(table)
    # The interval is of three resamples: its ends lie at 2.5 % and 97.5 % of 0.78, 0.80, 0.82.
    assert (
        "| DCL-η_LM | 0.800 [0.781, 0.819] | 0.86 | – | 0.72 | 1.350 [1.331, 1.369] | 1.49 | – |"
        " 0.20 | – | 0.30 | 100.1 [100.1, 100.1] | 104 |"
    ) in page
    assert "| remove by text similarity | failed | 0.84 | – | 0.72 | – | 1.39 |" in page
    assert "- remove-by-text, seed 0: the loss is not a number at step 3" in page
    assert "| DCL-η_LM | +0.100 [+0.100, +0.100] better; paper +0.07 | –; paper +0.07 |" in page
    assert "not distinguishable; paper -11 |" in page or "worse; paper -11 |" in page
    assert "Of 1 pairs of rows that the paper tells apart, 1 stand in the same" in page
    assert "tau 1.00 [1.00, 1.00]" in page
    assert "**AUC by finding**" in page
    assert "| LSE+NL | 0.700 [0.681, 0.719] | 0.876 |" in page
    assert "- AUC: no images with or none without Pneumonia" in page
    assert "- Recall: 26 boxes are too few for its cut-offs" in page
    assert "8 steps of 4 images and 2 sentences each" in page
    assert "| DCL-η_LM | 0 | 8 | 48 | 12 | 1 | 0.800 | – | 1.350 |" in page
    assert "of the 3 below, about 0.1 would" in page


def test_a_row_trained_with_another_budget_is_refused(tmp_path: Path) -> None:
    runs = []
    for name, steps in (("lse-nl", 8), ("dcl-eta-lm", 9)):
        one = finished(tmp_path, name, 0.0)
        one.metrics["configuration"]["training"]["steps"] = steps
        runs.append(write(one))
    with pytest.raises(ConfigError, match="trained with different training.steps"):
        build_table(ROWS, read_finished(runs)[0], {})


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
        assert back[name].estimate == one.estimate
        np.testing.assert_array_equal(back[name].values, one.values)
    few = {"CNR": replace(measures(0.0)["CNR"], ends=(1.1, 1.3), patients=8), "AUC": back["AUC"]}
    write_measures(path, few)
    assert [(one.ends, one.patients) for one in read_measures(path).values()] == [
        ((1.1, 1.3), 8),
        (None, None),
    ]
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
        build_table(ROWS, [Finished(one.run, one.metrics, {})], {})
