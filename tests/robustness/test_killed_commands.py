"""Every command that writes, killed at random moments: the same output, and no litter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_commands.py")
KILLS = int(os.environ.get("CXRTEXT_KILLS", "25"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("phantom", "import", "pretrain-text", "score-text", "train", "index", "evaluate"),
        *("calibrate", "classify", "ground", "check-data"),
    ],
)
def test_a_killed_command_comes_to_the_same_files(
    name: str,
    data_folder: Path,
    checkpoint: Path,
    language_model: Path,
    sentences_table: Path,
    tmp_path: Path,
    seed: int,
) -> None:
    paths = {
        "work": tmp_path,
        "data": data_folder,
        "checkpoint": checkpoint,
        "language-model": language_model,
        "sentences": sentences_table,
    }
    options = [part for key, path in paths.items() for part in (f"--{key}", str(path))]
    done = subprocess.run(
        [sys.executable, SCRIPT, name, *options, "--kills", str(KILLS), "--seed", str(seed)],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{name:14} {found}")
    assert found["kills"] == KILLS
    assert found["different"] == []
    assert found["litter"] == []
