"""The table's text from given scores and metrics."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import ConfigError, WorkError
from cxrtext.experiments.measuring import ImageScores, read_scores, write_scores
from cxrtext.experiments.page import markdown_page
from cxrtext.experiments.rows import TABLE1, choose_rows
from cxrtext.experiments.runs import Run
from cxrtext.experiments.table import Finished, build_table, read_finished

ROWS = choose_rows(["lse-nl", "dcl-eta-lm", "remove-by-text"])


def metrics(name: str) -> dict[str, Any]:
    return {
        "evaluation": {"split": "test", "grounding": {"CNR": 1.25}},
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


def scores(shift: float) -> ImageScores:
    labels = np.tile([0, 1], 20)
    noise = np.random.default_rng(0).normal(size=40)
    return ImageScores(
        images=np.array([f"{i}.png" for i in range(40)]),
        patients=np.array([f"p{i}" for i in range(40)]),
        findings=("Edema", "Pneumonia"),
        differences=np.stack([noise + shift * labels, noise]),
        labels=np.stack([labels, np.full(40, -1)]).astype(np.int8),
    )


def finished(folder: Path, name: str, shift: float, seed: int = 0) -> Finished:
    (row,) = choose_rows([name])
    return Finished(Run(row, seed, folder, 8), metrics(name), scores(shift))


def page_of(table: dict[str, Any]) -> str:
    heading = {
        "scale": "smoke",
        "source": "drawn studies",
        "seeds": 1,
        "machine": "2 cores, CPU",
        "versions": "cxrtext 1",
    }
    table = json.loads(json.dumps({**heading, **table}, allow_nan=False))
    return markdown_page(table)


def test_ours_stands_beside_the_papers(tmp_path: Path) -> None:
    runs = [finished(tmp_path, "lse-nl", 0.0), finished(tmp_path, "dcl-eta-lm", 3.0)]
    failed = {"remove-by-text": [{"seed": 0, "line": "the loss is not a number at step 3"}]}
    table = build_table(ROWS, runs, failed, 100)
    base, removed, proposed = table["rows"]
    assert [row["name"] for row in table["rows"]] == ["lse-nl", "remove-by-text", "dcl-eta-lm"]
    assert base["difference"] is None
    assert proposed["difference"]["AUC"]["low"] > 0
    assert proposed["paper_difference"] == {
        "AUC": 0.07, "ACC": 0.07, "CNR": 0.09, "mIoU": 0.01, "Recall": 0.01, "MedR": -11,
    }  # fmt: skip
    assert removed["measures"] == {}
    page = page_of(table)
    area = proposed["measures"]["AUC"]
    assert (
        f"| DCL-η_LM | {area['value']:.3f} [{area['low']:.3f}, {area['high']:.3f}] | 0.86 |" in page
    )
    assert "| 1.250 | 1.40 |" in page  # CNR, which the evaluations have; mIoU they have not
    assert "mIoU" not in page
    assert "| remove by text similarity | failed | 0.84 | – | 0.72 |" in page
    assert "- remove by text similarity, seed 0: the loss is not a number at step 3" in page
    assert "LSE+NL, which corrects nothing? **yes**" in page
    assert "| method | Edema |" in page
    assert "| LSE+NL, paper | 0.876 |" in page
    assert "want of images with or without: Pneumonia" in page
    assert "8 steps of 4 images and 2 sentences each" in page
    assert "| DCL-η_LM | 0 | 8 | 12 | 1 |" in page


def test_a_row_trained_with_another_budget_is_refused(tmp_path: Path) -> None:
    runs = []
    for name, steps in (("lse-nl", 8), ("dcl-eta-lm", 9)):
        one = finished(tmp_path / name, name, 0.0)
        one.metrics["configuration"]["training"]["steps"] = steps
        write_scores(one.run.folder / "scores.npz", one.scores)
        (one.run.folder / "metrics.json").write_text(json.dumps(one.metrics))
        runs.append(one.run)
    with pytest.raises(ConfigError, match="trained with different training.steps"):
        read_finished(runs)


def test_scores_come_back_and_damaged_ones_are_said(tmp_path: Path) -> None:
    path = tmp_path / "scores.npz"
    write_scores(path, scores(1.0))
    back = read_scores(path)
    np.testing.assert_array_equal(back.differences, scores(1.0).differences)
    assert back.findings == ("Edema", "Pneumonia")
    path.write_bytes(path.read_bytes()[:200])
    run = Run(TABLE1[0], 0, tmp_path, 8)
    (tmp_path / "metrics.json").write_text(json.dumps(metrics("info-nce")))
    done, failures = read_finished([run])
    assert not done
    assert "remove its folder's metrics.json" in failures["biovil", 0]


def test_where_every_row_failed_the_first_one_says_why() -> None:
    with pytest.raises(WorkError, match="every row failed; the first, lse-nl: no memory"):
        build_table(ROWS, [], {"lse-nl": [{"seed": 0, "line": "no memory"}]}, 10)
