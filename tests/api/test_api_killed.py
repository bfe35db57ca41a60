"""A server that is killed while it adds, replaces and deletes images: see the script."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_image_writer.py")


@pytest.mark.slow
def test_a_killed_server_leaves_whole_images_and_no_litter(
    checkpoint: Path, index_folder: Path, tmp_path: Path
) -> None:
    index = shutil.copytree(index_folder, tmp_path / "index")
    done = subprocess.run(
        [sys.executable, SCRIPT, checkpoint, index, tmp_path / "uploads", "--rounds", "25"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("25 kills")
