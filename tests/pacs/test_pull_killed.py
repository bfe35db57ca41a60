"""A pull that is killed again and again, from an Orthanc that is killed, too."""

import hashlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pacs.orthanc import Orthanc, missing
from tests.pacs.studies import PLANTED, archive, wanted

STUDIES = 224
KILLS = 10


@pytest.mark.slow
def test_ten_kills_and_two_restarts_of_the_peer_change_nothing(
    peers: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said := missing():
        pytest.skip(said)
    orthanc = Orthanc(tmp_path / "orthanc").start()
    try:
        monkeypatch.setenv("CXRTEXT_TEST_PACS_PASSWORD", orthanc.password)
        for _, objects in archive(STUDIES):
            orthanc.store(objects)
        slow = {"parallel": 2, "requests_per_second": 12}
        path = peers(orthanc.peer(), orthanc.peer("slow", limits=slow))
        whole = _pull(path, "archive", tmp_path / "whole")
        whole.communicate(timeout=600)
        assert whole.returncode == 0
        expected = _digests(tmp_path / "whole")
        assert len(expected) == len(wanted(STUDIES))
        _killed(path, tmp_path / "killed", orthanc)
    finally:
        orthanc.kill()
    assert _digests(tmp_path / "killed") == expected
    assert _settled(tmp_path / "killed") == _settled(tmp_path / "whole")
    left = [p for p in (tmp_path / "killed/images").rglob("*") if p.name.startswith(".")]
    assert left == []


def _killed(peers: Path, out: Path, orthanc: Orthanc) -> None:
    """Kill the pull ten times, and the peer twice while it runs; then let it end."""
    chance = random.Random(22)  # noqa: S311
    kills = alive = 0
    restarts = [3, 7]
    while kills < KILLS:
        process = _pull(peers, "slow", out)
        if kills in restarts:
            restarts.remove(kills)
            time.sleep(2.0)
            orthanc.kill()
            time.sleep(1.0)
            orthanc.start()
        time.sleep(chance.uniform(1.2, 3.0))
        alive += process.poll() is None
        process.kill()
        process.communicate()
        kills += 1
    assert alive >= 8, "it ended before it was killed"
    last = _pull(peers, "slow", out)
    try:
        said, _ = last.communicate(timeout=600)
    finally:
        last.kill()
    assert last.returncode == 0, said
    assert "+ 0 failed" in said
    assert PLANTED not in said


def _pull(peers: Path, name: str, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "import cxrtext_cli; cxrtext_cli.start()", "pull", name]
    command += [
        "--from",
        "2024-02-28",
        "--to",
        "2024-03-10",
        "--out",
        str(out),
        "--peers",
        str(peers),
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    )


def _digests(out: Path) -> dict[str, str]:
    paths = sorted((out / "images").rglob("*.dcm"))
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def _settled(out: Path) -> list[tuple[str, ...]]:
    state = sqlite3.connect(out / "pull.sqlite")
    query = "SELECT instance, state, reason, digest FROM instances ORDER BY instance"
    rows = state.execute(query).fetchall()
    state.close()
    return rows
