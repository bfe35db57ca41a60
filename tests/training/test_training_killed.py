import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cxrtext.config import load_config
from cxrtext.errors import WorkError
from cxrtext.training import Listener, train
from cxrtext.training.loop.resume import load_newest_state, save_state
from tests.conftest import flip


def start(options: list[str], *, resume: bool) -> subprocess.Popen[str]:
    sets = [part for option in options for part in ("--set", option)]
    return subprocess.Popen(
        [sys.executable, "-m", "cxrtext.training", *sets, *(["--resume"] if resume else [])],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill_while_training(process: subprocess.Popen[str], delay: float) -> None:
    """SIGKILL some time after the first step; nothing of the process runs after that."""
    assert process.stdout is not None
    next(line for line in process.stdout if line.startswith("step "))
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_killed_at_random_and_resumed_gives_the_very_bytes_of_an_unbroken_run(
    options: list[str], tmp_path: Path
) -> None:
    """Weights, and those of the best validation, with averages and micro-batches on."""
    chosen = [
        *options,
        "training.steps=100",
        "training.save_every=4",
        "training.validate_every=25",
        "training.log_every=1",
        "training.ema=0.9",
        "training.accumulate=2",
        "training.mlm_weight=0.1",
        "training.rotation=5",
    ]
    whole, broken = ([*chosen, f"out={tmp_path / name}"] for name in ("whole", "broken"))
    train(load_config(None, whole))
    moments = random.Random(time.time_ns())  # noqa: S311 - any moment is to do
    kill_while_training(start(broken, resume=False), moments.uniform(0, 1.0))
    kill_while_training(start(broken, resume=True), moments.uniform(0, 1.0))
    with start(broken, resume=True) as last:
        try:
            out, _ = last.communicate(timeout=240)
        finally:
            last.kill()  # nothing where it has ended
    assert last.returncode == 0, out
    for name in ("checkpoint", "checkpoint-best"):
        files = (tmp_path / run / name / "model.safetensors" for run in ("whole", "broken"))
        assert len({file.read_bytes() for file in files}) == 1, name
    assert not list((tmp_path / "broken").glob(".*.tmp"))


def test_a_damaged_newest_state_is_passed_over(options: list[str], tmp_path: Path) -> None:
    chosen = [*options, "training.steps=6", "training.save_every=2", "training.keep=3"]
    whole, broken = (
        load_config(None, [*chosen, f"out={tmp_path / name}"]) for name in ("whole", "broken")
    )
    train(whole)
    shutil.copytree(whole.out, broken.out)
    newest = sorted((broken.out / "state").glob("step-*.pt"))[-1]
    flip(newest, newest.stat().st_size // 2)
    said, steps = list[str](), list[int]()
    listener = Listener(say=said.append, step=lambda r, _: steps.append(r.step))
    train(broken, resume=True, listener=listener)
    assert steps == [5, 6]
    assert any("step-00000006" in line and "damaged" in line for line in said)
    weights = [(c.out / "checkpoint/model.safetensors").read_bytes() for c in (whole, broken)]
    assert weights[0] == weights[1]


def test_the_last_states_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_state(tmp_path, step, {"step": step}, keep=2)
    names = sorted(path.name.split("-")[1] for path in tmp_path.iterdir())
    assert names == ["00000002", "00000003"]
    assert load_newest_state(tmp_path) == {"step": 3}
    assert load_newest_state(tmp_path / "none") is None


@pytest.mark.parametrize("free", [0, 1000])
def test_a_full_disk_is_said_before_work_begins(
    options: list[str], monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr("cxrtext.training.loop.resume.shutil.disk_usage", lambda _: usage)
    config = load_config(None, [*options, "training.steps=2"])
    with pytest.raises(WorkError, match="keeping 2 states and two checkpoints takes .* GB free"):
        train(config)
    assert not (config.out / "state").exists()
