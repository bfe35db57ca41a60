"""Every command that writes, killed at random moments: the same output, and no litter."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.robustness.kill_commands import COMMANDS

SCRIPT = Path(__file__).with_name("kill_commands.py")
KILLS = int(os.environ.get("CXRTEXT_KILLS", "25"))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_comes_to_the_same_files(
    name: str,
    data_folder: Path,
    checkpoint: Path,
    language_model: Path,
    options_into: Callable[[Path], list[str]],
    tmp_path: Path,
    seed: int,
) -> None:
    places = {"data": data_folder, "checkpoint": checkpoint, "language_model": language_model}
    often = ("training.steps=30", "training.validate_every=10", "training.save_every=2")
    given = {
        "name": name, "work": tmp_path, "places": places, "kills": KILLS, "seed": seed,
        "training": [*options_into(Path("{out}/run")), *often],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, SCRIPT, json.dumps(given, default=str)],
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{name:14} {found}")
    assert found["kills"] == KILLS
    assert found["different"] == []
    assert found["litter"] == []
