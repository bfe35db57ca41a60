"""A writer killed at random moments while the index is searched; 50 kills: see the script."""

from pathlib import Path

import pytest

from tests.index.kill_index_writer import main


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("rounds", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_what_was_acknowledged(
    checkpoint: Path, tmp_path: Path, rounds: int
) -> None:
    assert main([str(checkpoint), str(tmp_path / "index"), "--rounds", str(rounds)]) == 0
