"""A writer killed at random moments while the index is searched; 50 kills: see the script."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("kill_index_writer.py")


def test_a_killed_writer_leaves_what_was_acknowledged(checkpoint: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, checkpoint, tmp_path / "index", "--rounds", "5"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 kills")
