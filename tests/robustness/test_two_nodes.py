import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("two_nodes.py")


@pytest.mark.slow
def test_nodes_are_killed_and_come_back(
    options_into: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("{}")
    options = [*options_into(tmp_path / "run"), "training.steps=60", "training.log_every=1"]
    options += [
        "training.save_every=5",
        "training.lr=1e-5",
        "training.lock=[text]",
        "training.precision=float32",
    ]
    chosen = [option for option in options if not option.startswith("out=")]
    sets = [part for option in chosen for part in ("--set", option)]
    runs = ["--only", "static", "elastic", "--kills", "1"]
    done = subprocess.run(
        [sys.executable, SCRIPT, config, tmp_path, *runs, *sets],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    apart = re.findall(r"60 steps; losses differ by (\S+) in the mean", done.stdout)
    assert len(apart) == 2
    assert all(float(value) < 0.01 for value in apart), done.stdout
