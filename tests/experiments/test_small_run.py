"""Each experiment on small images at its smallest, from its file to its page."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape

from cxrtext.errors import ConfigError, DataError
from cxrtext.experiments import ExperimentListener, ExperimentOptions, Outcome, run_experiment
from cxrtext.experiments.definition import EXPERIMENTS, load_experiment

SMALL = [name for name in EXPERIMENTS if name not in ("when-it-helps", "table1")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Noise with a brightness of its class, as CIFAR-10 and as MNIST."""
    folder = tmp_path_factory.mktemp("given")
    generator = np.random.default_rng(0)
    for name, shape in (("cifar10", (32, 32, 3)), ("mnist", (28, 28))):
        arrays: dict[str, Any] = {}
        for part, count in (("train", 400), ("test", 100)):
            labels = np.arange(count) % 10
            noise = generator.integers(0, 40, (count, *shape))
            level = 20 * labels.reshape(-1, *[1] * len(shape))
            arrays |= {f"x_{part}": (noise + level).astype(np.uint8), f"y_{part}": labels}
        np.savez(folder / f"{name}.npz", **arrays)
    return {name: folder / f"{name}.npz" for name in ("cifar10", "mnist")}


def go(
    name: str, out: Path, files: dict[str, Path], *rows: str, seeds: int = 1
) -> tuple[Outcome, list[str]]:
    """What came of it, and the runs that were trained."""
    lines: list[str] = []
    data = files[load_experiment(name).given]
    options = ExperimentOptions("smoke", out, data, seeds=seeds, rows=rows or None)
    outcome = run_experiment(name, options, ExperimentListener(say=lines.append))
    return outcome, [line.split(": done")[0] for line in lines if ": done in" in line]


@pytest.mark.parametrize("name", SMALL)
def test_every_experiment_comes_to_its_table(
    name: str, files: dict[str, Path], tmp_path: Path
) -> None:
    outcome, trained = go(name, tmp_path / "out", files)
    assert outcome.failed == ()
    experiment = load_experiment(name)
    rows = [row.name for _, row in experiment.choose("smoke", None)]
    assert trained == [f"{row}, seed 0" for row in rows]
    logs = (tmp_path / f"out/runs/{row}/seed-0/train/metrics.jsonl" for row in rows)
    losses = {json.loads(path.read_text().splitlines()[-1])["loss"] for path in logs}
    assert len(losses) == len(rows)  # each learns otherwise
    measures = {group.name: group.measures for group in experiment.groups}
    for group in outcome.data["groups"]:
        for row in group["rows"]:
            assert set(row["measures"]) == {one.name for one in measures[group["name"]]}
            for cell in row["measures"].values():
                assert cell["low"] <= cell["value"] <= cell["high"]
    assert outcome.data["order"]["pairs"] >= 2
    page = (tmp_path / "out/table.html").read_text()
    assert f"<h1>{escape(experiment.title)}</h1>" in page
    assert json.loads((tmp_path / "out/table.json").read_text()) == outcome.data
    again, trained = go(name, tmp_path / "out", files)
    assert (again.page, trained) == (outcome.page, [])


def test_rows_and_seeds_may_be_added_and_a_run_made_again(
    files: dict[str, Path], tmp_path: Path
) -> None:
    first, _ = go("hardneg-cclk", tmp_path, files, "info-nce")
    assert first.data["order"]["pairs"] == 0
    rows = ("info-nce", "hardneg-info-nce")
    second, trained = go("hardneg-cclk", tmp_path, files, *rows, seeds=2)
    assert trained == ["hardneg-info-nce, seed 0", "info-nce, seed 1", "hardneg-info-nce, seed 1"]
    one, other = second.data["groups"][0]["rows"]
    assert [run["seed"] for run in other["runs"]] == [0, 1]
    assert one["runs"][0]["measures"] == first.data["groups"][0]["rows"][0]["runs"][0]["measures"]
    shutil.rmtree(tmp_path / "runs/info-nce/seed-0")
    again, trained = go("hardneg-cclk", tmp_path, files, "info-nce", seeds=2)
    assert trained == ["info-nce, seed 0"]
    assert again.data["groups"][0]["rows"][0]["measures"] == one["measures"]


def test_wrong_requests(tmp_path: Path, files: dict[str, Path]) -> None:
    def refused(name: str, **changes: Any) -> str:
        options = replace(ExperimentOptions("smoke", tmp_path / "new"), **changes)
        with pytest.raises((ConfigError, DataError)) as error:
            run_experiment(name, options)
        return str(error.value)

    assert "give cifar10 with --data: an .npz of x_train" in refused("cifar10-r")
    assert "give mnist with --data: an .npz of x_train" in refused("fair-cclk")
    assert "--features: small images take none" in refused("fair-cclk", features=tmp_path)
    nowhere = tmp_path / "nowhere"
    assert f"{nowhere}: not a file; --data takes an .npz" in refused("cifar10-r", data=nowhere)
    assert not (tmp_path / "new").exists()
    # A file of the other set is said, before anything is trained.
    assert "cifar10 has 3 channel(s)" in refused("hardneg-cclk", data=files["mnist"])


def test_another_file_wants_another_folder(files: dict[str, Path], tmp_path: Path) -> None:
    go("hardneg-cclk", tmp_path / "out", files, "info-nce")
    copy = tmp_path / "copy.npz"
    with np.load(files["cifar10"]) as arrays:
        np.savez(copy, **{name: arrays[name][::2] for name in arrays.files})
    options = ExperimentOptions("smoke", tmp_path / "out", copy)
    with pytest.raises(ConfigError, match="the folder holds an experiment with data"):
        run_experiment("hardneg-cclk", options)
