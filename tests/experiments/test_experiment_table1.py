"""The whole of table 1 at its smallest: run, gone on with, killed, interrupted."""

import json
import math
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cxrtext.config import first_difference, load_config
from cxrtext.errors import ConfigError, DataError
from cxrtext.experiments import ExperimentListener, ExperimentOptions, Outcome, run_experiment
from cxrtext.experiments.definition import Experiment, Row, load_experiment
from cxrtext.experiments.pairs import Pairs
from cxrtext.files import read_sealed, write_sealed
from cxrtext.jobs import EncodeOptions, encode_images
from tests import small_backbones
from tests.conftest import read_csv
from tests.waiting import until

ROWS = ("lse-nl", "dcl-eta-lm")
TABLE1 = load_experiment("table1")


def again(out: Path, *names: str, listener: ExperimentListener | None = None) -> Outcome:
    options = ExperimentOptions("smoke", out, rows=names or ROWS)
    return run_experiment("table1", options, listener)


def rows_of(outcome: Outcome) -> list[dict[str, Any]]:
    return [row for group in outcome.data["groups"] for row in group["rows"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    out = tmp_path_factory.mktemp("experiment") / "table1"
    return out, again(out)


@pytest.fixture
def copy(whole: tuple[Path, Outcome], tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole[0], tmp_path / "table1"))


def stamps(out: Path) -> dict[str, int]:
    files = [*out.glob("stages/*.json"), *out.glob("runs/*/*/metrics.json")]
    return {str(path.relative_to(out)): path.stat().st_mtime_ns for path in files}


def test_two_rows_from_phantoms_to_the_table(whole: tuple[Path, Outcome]) -> None:
    out, outcome = whole
    assert outcome.failed == ()
    assert "<h1>Table 1: correcting for false negatives</h1>" in (out / "table.html").read_text()
    assert outcome.page.startswith("# Table 1: correcting for false negatives\n")
    table = json.loads((out / "table.json").read_text())
    (group,) = table["groups"]
    assert [row["name"] for row in group["rows"]] == ["lse-nl", "dcl-eta-lm"]
    base, proposed = group["rows"]
    assert proposed["difference"]["AUC"]["value"] == pytest.approx(
        proposed["measures"]["AUC"]["value"] - base["measures"]["AUC"]["value"]
    )
    (run,) = proposed["runs"]
    assert (run["steps"], run["seed"]) == (8, 0)
    assert run["settings"]["objective"]["name"] == "dcl-eta-lm"
    assert set(run["versions"]) == {"cxrtext", "torch", "python"}
    assert re.fullmatch(r"\d+ cores, CPU", run["machine"])
    assert {"phantoms", "language-model", "score-text", "decode"} <= set(table["stages"])
    assert "| DCL-η_LM |" in outcome.page
    measured = [one.name for one in TABLE1.groups[0].measures]
    assert list(base["measures"]) == measured
    edema = base["measures"]["AUC of Edema"]
    assert edema["low"] < edema["value"] < edema["high"]


def test_what_an_older_version_measured_is_measured_again_and_not_trained(
    whole: tuple[Path, Outcome], copy: Path
) -> None:
    run = copy / "runs/lse-nl/seed-0"
    metrics = read_sealed(run / "metrics.json")
    write_sealed(run / "metrics.json", {**metrics, "format": 3})
    (run / "measures.npz").unlink()
    (copy / "text/sentences.csv").write_text("study_id,sentence\n")  # training would fail
    before = (run / "stages/training.json").stat().st_mtime_ns
    outcome = again(copy)
    assert outcome.failed == ()
    for row, first in zip(*map(rows_of, (outcome, whole[1])), strict=True):
        for name, cell in row["measures"].items():
            expected = [first["measures"][name][key] for key in ("value", "low", "high")]
            found = [cell[key] for key in ("value", "low", "high")]
            assert found == pytest.approx(expected, rel=1e-2)
    assert (run / "stages/training.json").stat().st_mtime_ns == before


def test_no_text_model_sees_a_test_patient(whole: tuple[Path, Outcome]) -> None:
    split = {row["study_id"]: row["split"] for row in read_csv(whole[0] / "data/manifest.csv")}
    for name, splits in (("train.csv", {"train"}), ("sentences.csv", {"train", "val"})):
        assert {split[row["study_id"]] for row in read_csv(whole[0] / "text" / name)} == splits


def test_a_finished_experiment_repeats_nothing(whole: tuple[Path, Outcome]) -> None:
    out, outcome = whole
    before, lines = stamps(out), list[str]()
    assert again(out, listener=ExperimentListener(say=lines.append)).page == outcome.page
    assert (stamps(out), lines) == (before, [])


@pytest.mark.parametrize("scale", list(TABLE1.scales))
def test_every_row_is_valid_and_has_the_same_budget(
    scale: str, whole: tuple[Path, Outcome], tmp_path: Path
) -> None:
    options = ExperimentOptions(scale, tmp_path, whole[0] / "data")
    chosen = TABLE1.scale(scale)
    pairs = Pairs(TABLE1, chosen, options, tmp_path, ExperimentListener())
    of_group = [group for group in TABLE1.groups if group.name in (chosen.groups or ["table1"])]
    for group in of_group:
        settings = {row.name: pairs.settings(group, row, 1) for row in group.rows}
        objectives = {name: one.pop("objective") for name, one in settings.items()}
        for one in settings.values():  # what rows may differ by beside the objective
            del one["model"]["similarity"], one["training"]["mlm_weight"]
        first, *others = settings.values()
        assert {first_difference(first, one, shared=True) for one in others} == {None}
        locked = ["image", "text"] if chosen.start and group.name == "table1" else []
        assert (first["training"]["lock"], first["training"]["seed"]) == (locked, 1)
        assert [row.name for row in group.rows if pairs.missing(row.needs or "manifest.csv")] == []
        config = load_config(tmp_path / "runs" / group.baseline / "seed-1/train.yaml")
        assert config.data.manifest.resolve() == (whole[0] / "data/manifest.csv").resolve()
    assert objectives if of_group[-1].name == "live" else objectives["dcl-eta-0.1"]["eta"] == 0.1
    if of_group[-1].name == "table1":
        assert objectives["biovil"]["symmetric"]
        assert 2 * objectives["resample-by-text"]["keep"] == first["training"]["batch"]
    tree = tmp_path / f"runs/{'live-' * (of_group[-1].name == 'live')}remove-by-labels/seed-1"
    assert "labels_from_reports.csv" in (tree / "train.yaml").read_text()


def changed(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Another table 1, of other rows or another smallest scale."""
    rows = changes.pop("rows", ())
    smoke = TABLE1.scales["smoke"].model_copy(update=changes)
    group = TABLE1.groups[0].model_copy(update={"rows": (*TABLE1.groups[0].rows, *rows)})
    update = {"scales": {"smoke": smoke}, "groups": (group, *TABLE1.groups[1:])}
    other: Experiment = TABLE1.model_copy(update=update)
    monkeypatch.setattr("cxrtext.experiments.runner.load_experiment", lambda _: other)


def test_a_row_that_cannot_be_trained_is_told_and_the_others_go_on(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, similarity = {"name": "info-nce"}, {"model": {"similarity": "none such"}}
    wrong = Row(name="wrong", title="a wrong row", objective=objective, settings=similarity)
    blind = Row(name="blind", title="blind", objective=objective, needs="weather.csv")
    changed(monkeypatch, rows=(wrong, blind))
    outcome = again(copy, *ROWS, "wrong", "blind")
    first, other = outcome.failed
    assert first == f"blind: {copy / 'data'}: holds no weather.csv, which this row needs"
    assert other.startswith("wrong, seed 0: ")
    assert "model.similarity: 'none such'" in other
    assert "| a wrong row | failed |" in outcome.page
    assert "| LSE+NL | 0." in outcome.page


@pytest.mark.slow
def test_seeds_go_on_from_several_starts_in_turn_on_features(
    whole: tuple[Path, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On given data and a backbone's features; a start is one training, the mean of its seeds."""
    groups = {"table1": TABLE1.scales["smoke"].groups["table1"]}
    changed(monkeypatch, starts=2, groups=groups)
    data, out, features = whole[0] / "data", tmp_path / "starts", tmp_path / "features"
    backbone = small_backbones.write(tmp_path / "backbone", "resnet")
    encode_images(data / "manifest.csv", backbone, features, EncodeOptions(workers=1))
    options = ExperimentOptions("smoke", out, data, features, 3, ("lse-nl",))
    outcome = run_experiment("table1", options)
    assert not (out / "image-encoder").exists()
    assert not (out / "decoded").exists()
    assert "Seeds continue from 2 common starts in turn" in outcome.page
    first, second = (out / name / "train/checkpoint" for name in ("start", "start-1"))
    weights = [(one / "model.safetensors").read_bytes() for one in (first, second)]
    assert weights[0] != weights[1]
    (row,) = rows_of(outcome)
    by_seed = {run["seed"]: run["measures"]["AUC"] for run in row["runs"]}
    assert sorted(by_seed) == [0, 1, 2]
    one, two = (by_seed[0] + by_seed[2]) / 2, by_seed[1]
    assert row["measures"]["AUC"]["value"] == pytest.approx((one + two) / 2)
    assert row["measures"]["AUC"]["deviation"] == pytest.approx(abs(one - two) / math.sqrt(2))
    for seed, start in ((0, "start"), (1, "start-1"), (2, "start")):
        tree = (out / f"runs/lse-nl/seed-{seed}/train.yaml").read_text()
        assert f"{start}/train/checkpoint" in tree


def test_a_run_trained_with_another_recipe_is_not_mixed_in(copy: Path) -> None:
    path = copy / "runs/lse-nl/seed-0/metrics.json"
    metrics = read_sealed(path)
    metrics["settings"]["training"]["steps"] = 7
    write_sealed(path, metrics)
    outcome = again(copy)
    assert "was trained with training.steps 7, not 8; remove the folder" in outcome.failed[0]
    assert rows_of(outcome)[1]["difference"] == {}


def start(out: Path) -> "subprocess.Popen[str]":
    command = ["experiment", "table1", "--scale", "smoke", "--rows", ",".join(ROWS)]
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("cxrtext")), *command, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Started from a background job, as by a CI, it would inherit that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def stopped(out: Path, number: signal.Signals) -> tuple[int, str]:
    """Signal an experiment in the middle of its second row; its exit code and what it said."""
    with start(out) as process:
        begun = out / "runs/dcl-eta-lm/seed-0/train/config.yaml"
        until(lambda: begun.exists() or process.poll() is not None)
        process.send_signal(number)
        text = process.stderr.read() if process.stderr else ""
        return process.wait(timeout=600), text


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_any_moment_it_goes_on(copy: Path, number: signal.Signals) -> None:
    run = copy / "runs/dcl-eta-lm/seed-0"
    shutil.rmtree(run)
    before = stamps(copy)
    code, text = stopped(copy, number)
    for _ in range(2):
        if code == 0:  # on a busy machine it may have ended before the signal came
            shutil.rmtree(run.parent)
            code, text = stopped(copy, number)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 130), text
    if number != signal.SIGKILL:
        assert "run the same command again to resume" in text
        assert "Traceback" not in text
    outcome = again(copy)
    assert outcome.failed == ()
    after = stamps(copy)
    assert {name: after[name] for name in before} == before
    assert (run / "metrics.json").is_file()


def test_wrong_requests(tmp_path: Path) -> None:
    options = ExperimentOptions("smoke", tmp_path / "new")
    with pytest.raises(ConfigError, match="there is no experiment 'table9'; there is when-it"):
        run_experiment("table9", options)
    for change, says in (
        ({"scale": "huge"}, "--scale huge: is not one of smoke, cpu, films, gpu, paper"),
        ({"rows": ("lse",)}, "no row 'lse'; there are biovil, lse-nl"),
        ({"seeds": 0}, "--seeds 0: must be 1 or more"),
        ({"scale": "films"}, "needs real data; give a data folder with --data"),
        ({"features": tmp_path}, "--features: at --scale smoke no row takes them"),
    ):
        with pytest.raises(ConfigError, match=says):
            run_experiment("table1", replace(options, **change))
    with pytest.raises(DataError, match="holds no manifest"):
        run_experiment("table1", replace(options, data=tmp_path))
    assert not (tmp_path / "new").exists()


def test_wrong_folders(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds 'notes.txt' and no experiment"):
        again(tmp_path)
    with pytest.raises(ConfigError, match=r"is a file; name a folder"):
        again(tmp_path / "notes.txt")
