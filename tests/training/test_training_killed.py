import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cxrtext.config import load_config
from cxrtext.errors import WorkError
from cxrtext.training import Listener, train
from cxrtext.training.loop.resume import load_newest_state, save_state
from tests.conftest import flip


def test_a_damaged_newest_state_is_passed_over(options: list[str], tmp_path: Path) -> None:
    chosen = [*options, "training.steps=6", "training.save_every=2"]
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
        save_state(tmp_path, step, {"step": step})
    names = sorted(path.name.split("-")[1] for path in tmp_path.iterdir())
    assert names == ["00000002", "00000003"]
    assert load_newest_state(tmp_path) == {"step": 3}
    assert load_newest_state(tmp_path / "none") is None


def test_a_full_disk_is_said_before_work_begins(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr("cxrtext.training.loop.resume.shutil.disk_usage", lambda _: usage)
    config = load_config(None, [*options, "training.steps=2"])
    with pytest.raises(WorkError, match="keeping states takes .* GB free"):
        train(config)
    assert not (config.out / "state").exists()
