"""A job killed at random moments ends with the shards and the index of one that was not."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_job.py")


@pytest.mark.slow
def test_a_killed_job_makes_the_same_shards_and_index(
    checkpoint: Path, archive_folder: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            SCRIPT,
            checkpoint,
            archive_folder / "manifest.csv",
            tmp_path,
            "--kills",
            "4",
        ],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert "4 kills" in done.stdout
