"""Each experiment at its smallest, from its files to its page."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape

from cxrtext.errors import ConfigError, DataError
from cxrtext.experiments import ExperimentListener, ExperimentOptions, Outcome, run_experiment
from cxrtext.experiments.papers import SMALL_EXPERIMENTS

Files = dict[str | None, Path | None]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Noise with a brightness of its class, as CIFAR-10 and as MNIST."""
    folder = tmp_path_factory.mktemp("given")
    generator = np.random.default_rng(0)
    found: Files = {None: None}
    for name, shape in (("cifar10", (32, 32, 3)), ("mnist", (28, 28))):
        arrays: dict[str, Any] = {}
        for part, count in (("train", 400), ("test", 100)):
            labels = np.arange(count) % 10
            noise = generator.integers(0, 40, (count, *shape))
            level = 20 * labels.reshape(-1, *[1] * len(shape))
            arrays |= {f"x_{part}": (noise + level).astype(np.uint8), f"y_{part}": labels}
        found[name] = folder / f"{name}.npz"
        np.savez(folder / f"{name}.npz", **arrays)
    return found


@pytest.fixture
def drawn_before(monkeypatch: pytest.MonkeyPatch, drawn: Path) -> None:
    def copy(out: Path, studies: int, _listener: ExperimentListener) -> dict[str, int]:
        shutil.copytree(drawn, out)
        return {"studies": studies}

    monkeypatch.setattr("cxrtext.experiments.data.sets.draw_images", copy)


@pytest.fixture
def inside(
    monkeypatch: pytest.MonkeyPatch, drawn_before: None, run_here: Callable[[list[str]], Any]
) -> list[str]:
    """Runs are trained in this process; their names are noted."""
    trained: list[str] = []
    monkeypatch.setattr("cxrtext.experiments.runner.run_all", run_here(trained))
    return trained


def go(name: str, out: Path, files: Files, *rows: str, seeds: int = 1) -> Outcome:
    data = files[SMALL_EXPERIMENTS[name].given]
    options = ExperimentOptions("smoke", out, data, rows=rows or None, seeds=seeds)
    return run_experiment(name, options)


@pytest.mark.parametrize("name", SMALL_EXPERIMENTS)
def test_every_experiment_comes_to_its_table(
    name: str, files: Files, inside: list[str], tmp_path: Path
) -> None:
    outcome = go(name, tmp_path / "out", files)
    assert outcome.failed == ()
    experiment = SMALL_EXPERIMENTS[name]
    wanted = [trial.name for _, trial in experiment.trials() if "smoke" in trial.scales]
    assert inside == [f"{row}, seed 0" for row in wanted]
    kept = (tmp_path / f"out/runs/{row}/seed-0/train/encoder.safetensors" for row in wanted)
    assert len({path.read_bytes() for path in kept}) == len(wanted)  # each learns otherwise
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
    inside.clear()
    assert go(name, tmp_path / "out", files).page == outcome.page
    assert inside == []


def test_rows_and_seeds_may_be_added_and_a_run_made_again(
    files: Files, inside: list[str], tmp_path: Path
) -> None:
    first = go("hardneg-cclk", tmp_path, files, "info-nce")
    assert first.data["order"] is None
    second = go("hardneg-cclk", tmp_path, files, "info-nce", "hardneg-info-nce", seeds=2)
    assert inside == [
        "info-nce, seed 0", "hardneg-info-nce, seed 0", "info-nce, seed 1",
        "hardneg-info-nce, seed 1",
    ]  # fmt: skip
    one, other = second.data["groups"][0]["rows"]
    assert [run["seed"] for run in other["runs"]] == [0, 1]
    weights = tmp_path / "runs/info-nce/seed-0/train/encoder.safetensors"
    before = weights.read_bytes()
    assert (tmp_path / "runs/info-nce/seed-1/train/encoder.safetensors").read_bytes() != before
    shutil.rmtree(tmp_path / "runs/info-nce/seed-0")
    again = go("hardneg-cclk", tmp_path, files, "info-nce", seeds=2)
    assert weights.read_bytes() == before
    assert again.data["groups"][0]["rows"][0]["measures"] == one["measures"]


def test_wrong_requests(tmp_path: Path, files: Files) -> None:
    def refused(name: str, **changes: Any) -> str:
        options = replace(ExperimentOptions("smoke", tmp_path / "new"), **changes)
        with pytest.raises((ConfigError, DataError)) as error:
            run_experiment(name, options)
        return str(error.value)

    assert "give cifar10 with --data: an .npz of x_train" in refused("cifar10-r")
    assert "give mnist with --data: an .npz of x_train" in refused("fair-cclk")
    nowhere = tmp_path / "nowhere"
    assert f"{nowhere}: not a file; --data takes an .npz" in refused("cifar10-r", data=nowhere)
    assert not (tmp_path / "new").exists()
    # A file of the other set is said, before anything is trained.
    assert "cifar10 has 3 channel(s)" in refused("hardneg-cclk", data=files["mnist"])


def test_another_scale_or_file_wants_another_folder(
    files: Files, inside: list[str], tmp_path: Path
) -> None:
    go("hardneg-cclk", tmp_path / "out", files, "info-nce")
    copy = tmp_path / "copy.npz"
    with np.load(str(files["cifar10"])) as held:
        np.savez(copy, **{name: held[name][::2] for name in held.files})
    options = ExperimentOptions("smoke", tmp_path / "out", copy)
    with pytest.raises(ConfigError, match="the folder holds an experiment with data"):
        run_experiment("hardneg-cclk", options)


def test_radiographs_alone_need_no_data(inside: list[str], tmp_path: Path) -> None:
    options = ExperimentOptions("smoke", tmp_path, rows=("phantom-fair-cclk",))
    outcome = run_experiment("fair-cclk", options)
    assert outcome.failed == ()
    assert outcome.data["given"] == "drawn radiographs"
