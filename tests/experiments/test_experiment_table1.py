"""The whole of table 1 at its smallest: run, gone on with, killed, interrupted."""

import fcntl
import json
import math
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.experiments import ExperimentListener, ExperimentOptions, Outcome, run_experiment
from cxrtext.experiments.experiment import Trial, choose
from cxrtext.experiments.papers.table1 import (
    ALL_MEASURES,
    BY_FINDING,
    LOCKED,
    PAPER_TABLE,
    SCALES,
)
from cxrtext.experiments.preparation import prepare
from cxrtext.files import read_sealed, write_sealed
from cxrtext.jobs import EncodeOptions, encode_images
from tests import small_backbones
from tests.conftest import read_csv
from tests.waiting import until

ROWS = ("lse-nl", "dcl-eta-lm")


def again(out: Path, *names: str, listener: ExperimentListener | None = None) -> Outcome:
    options = ExperimentOptions("smoke", out, rows=names or ROWS)
    return run_experiment("table1", options, listener)


def rows_of(outcome: Outcome) -> list[dict[str, Any]]:
    return [row for group in outcome.data["groups"] for row in group["rows"]]


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, run_here: Callable[[list[str]], Any]
) -> tuple[Path, Outcome]:
    out = tmp_path_factory.mktemp("experiment") / "table1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cxrtext.experiments.runner.run_all", run_here([]))
        return out, again(out)


@pytest.fixture
def copy(whole: tuple[Path, Outcome], tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole[0], tmp_path / "table1"))


@pytest.fixture
def half(copy: Path) -> Path:
    shutil.rmtree(copy / "runs/dcl-eta-lm")
    return copy


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
    assert run["configuration"]["objective"]["name"] == "dcl-eta-lm"
    assert set(run["versions"]) == {"cxrtext", "torch", "python"}
    assert re.fullmatch(r"\d+ cores, CPU", run["machine"])
    assert {"phantoms", "language-model", "score-text", "decode"} <= set(table["stages"])
    assert "| DCL-η_LM |" in outcome.page
    measured = [*ALL_MEASURES, *(one.name for one in BY_FINDING)]
    assert list(base["measures"]) == list(base["runs"][0]["measures"]) == measured
    metrics = json.loads((out / "runs/lse-nl/seed-0/metrics.json").read_text())
    told = {row["group"]: row["value"] for row in metrics["evaluation"]["results"]
            if (row["part"], row["measure"]) == ("zero-shot classification", "AUC")}  # fmt: skip
    assert told["mean"] == pytest.approx(base["measures"]["AUC"]["value"])
    edema = base["measures"]["AUC of Edema"]
    assert edema["value"] == pytest.approx(told["Edema"])
    assert edema["low"] < edema["value"] < edema["high"]


def test_what_an_older_version_measured_is_measured_again_and_not_trained(
    whole: tuple[Path, Outcome],
    copy: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_here: Callable[[list[str]], Any],
) -> None:
    monkeypatch.setattr("cxrtext.experiments.runner.run_all", run_here([]))
    run = copy / "runs/lse-nl/seed-0"
    metrics = read_sealed(run / "metrics.json")
    del metrics["format"]
    write_sealed(run / "metrics.json", metrics)
    (run / "resampled.npz").unlink()
    (copy / "text/sentences.csv").write_text("study_id,sentence\n")  # training would fail
    before = (run / "trained.json").stat().st_mtime_ns
    outcome = again(copy)
    assert outcome.failed == ()
    for row, first in zip(*map(rows_of, (outcome, whole[1])), strict=True):
        for name, cell in row["measures"].items():
            expected = [first["measures"][name][key] for key in ("value", "low", "high")]
            found = [cell[key] for key in ("value", "low", "high")]
            assert found == pytest.approx(expected, rel=1e-2)
    assert (run / "trained.json").stat().st_mtime_ns == before


def test_no_text_model_sees_a_test_patient(whole: tuple[Path, Outcome]) -> None:
    split = {row["study_id"]: row["split"] for row in read_csv(whole[0] / "data/manifest.csv")}
    for name, splits in (("train.csv", {"train"}), ("sentences.csv", {"train", "val"})):
        assert {split[row["study_id"]] for row in read_csv(whole[0] / "text" / name)} == splits


def test_sentences_get_another_eta_of_the_same_likelihoods(copy: Path) -> None:
    listener = ExperimentListener()
    before = stamps(copy)
    prepare(copy, None, SCALES["smoke"], listener, [(0.1, 0.5)])
    assert stamps(copy).items() > before.items()
    usual, other = (read_csv(copy / f"text/sentences{name}.csv") for name in ("", "-0.1-0.5"))
    for one, two in zip(usual, other, strict=True):
        assert two["log_likelihood"] == one["log_likelihood"]
        if two["eta"]:
            expected = 0.1 * math.exp(0.5 * float(one["log_likelihood"]))
            assert float(two["eta"]) == pytest.approx(expected, rel=1e-4)


def test_a_finished_experiment_repeats_nothing(whole: tuple[Path, Outcome]) -> None:
    out, outcome = whole
    before, said = stamps(out), list[str]()
    assert again(out, listener=ExperimentListener(say=said.append)).page == outcome.page
    assert stamps(out) == before
    assert said == ["done by an earlier run: 2 of 2"]


def test_a_row_that_cannot_be_trained_is_told_and_the_others_go_on(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Trial("wrong", "a wrong row", {"model": {"similarity": "none such"}}, column=LOCKED)
    missing = Trial("blind", "a row without its table", {}, needs="weather.csv")
    rows = (*choose(PAPER_TABLE.trials(SCALES["smoke"])[0], ROWS), wrong, missing)
    monkeypatch.setattr("cxrtext.experiments.table1.choose", lambda *_: rows)
    outcome = again(copy)
    blind, other = outcome.failed
    assert blind == f"blind: {copy / 'data'}: holds no weather.csv, which this row needs"
    assert other.startswith("wrong, seed 0: ")
    assert "model.similarity: 'none such'" in other
    assert "| a wrong row | failed |" in outcome.page
    assert "| LSE+NL | 0." in outcome.page


@pytest.mark.slow
def test_seeds_go_on_from_several_starts_in_turn_on_features(
    whole: tuple[Path, Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_here: Callable[[list[str]], Any],
) -> None:
    """On given data and a backbone's features; a start is one training, the mean of its seeds."""
    smoke = SCALES["smoke"]
    columns = {LOCKED: smoke.columns[LOCKED]}
    monkeypatch.setitem(SCALES, "smoke", replace(smoke, starts=2, columns=columns))
    monkeypatch.setattr("cxrtext.experiments.runner.run_all", run_here([]))
    data, out, features = whole[0] / "data", tmp_path / "starts", tmp_path / "features"
    backbone = small_backbones.write(tmp_path / "backbone", "resnet")
    encode_images(data / "manifest.csv", backbone, features, EncodeOptions(workers=1))
    options = ExperimentOptions("smoke", out, data, features, 3, ("lse-nl",))
    outcome = run_experiment("table1", options)
    assert not (out / "image-encoder").exists()
    assert not (out / "decoded").exists()
    assert "Seeds go on from 2 common starts in turn" in outcome.page
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
    metrics["configuration"]["training"]["steps"] = 7
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


def free(lock: Path) -> bool:
    """Whether no process works in a run's folder."""
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def stopped(out: Path, number: signal.Signals) -> tuple[int, str]:
    """Signal an experiment in the middle of its second row; its exit code and what it said."""
    with start(out) as process:
        begun = out / "runs/dcl-eta-lm/seed-0/train/config.yaml"
        until(lambda: begun.exists() or process.poll() is not None)
        process.send_signal(number)
        said = process.stderr.read() if process.stderr else ""
        return process.wait(timeout=600), said


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_any_moment_it_goes_on(half: Path, number: signal.Signals) -> None:
    run = half / "runs/dcl-eta-lm/seed-0"
    before = stamps(half)
    code, said = stopped(half, number)
    for _ in range(2):
        if code == 0:  # on a busy machine it may have ended before the signal came
            shutil.rmtree(run.parent)
            code, said = stopped(half, number)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 130), said
    if number != signal.SIGKILL:
        assert free(run / "lock")  # the run had ended first
        assert "run the same command again to resume" in said
        assert "Traceback" not in said
    outcome = again(half)
    assert outcome.failed == ()
    assert free(run / "lock")
    after = stamps(half)
    assert {name: after[name] for name in before} == before
    assert (run / "metrics.json").is_file()


def test_wrong_requests(tmp_path: Path) -> None:
    options = ExperimentOptions("smoke", tmp_path / "new")
    with pytest.raises(ConfigError, match="there is no experiment 'table9'; there is table1"):
        run_experiment("table9", options)
    for change, says in (
        ({"scale": "huge"}, "--scale huge: is not one of smoke, cpu, films, gpu, paper"),
        ({"rows": ("lse",)}, "there is no row 'lse'; there are biovil, lse-nl"),
        ({"rows": ()}, "names no row"),
        ({"seeds": 0}, "--seeds 0: must be 1 or more"),
        ({"scale": "films"}, "wants real data; give a data folder with --data"),
        ({"features": tmp_path}, "--features: at --scale smoke no row takes them"),
    ):
        with pytest.raises(ConfigError, match=says):
            run_experiment("table1", replace(options, **change))
    with pytest.raises(DataError, match="holds no manifest"):
        run_experiment("table1", replace(options, data=tmp_path))
    assert not (tmp_path / "new").exists()


def test_wrong_folders(whole: tuple[Path, Outcome], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds 'notes.txt' and no experiment"):
        again(tmp_path)
    with pytest.raises(ConfigError, match=r"is a file; name a folder"):
        again(tmp_path / "notes.txt")
    cpu = ExperimentOptions("cpu", whole[0])
    with pytest.raises(ConfigError, match=r"an experiment with scale.studies 60, not 4000"):
        run_experiment("table1", cpu)
    with (whole[0] / "table1.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(WorkError, match="another process"):
            again(whole[0])
