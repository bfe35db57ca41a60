"""``cxrtext job``: the whole way of an embed job, and what it says."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Refused, cxrtext


@pytest.mark.slow
def test_an_archive_is_embedded_in_parts_and_finished(
    refused: Refused, data_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    job, manifest = str(tmp_path / "job"), str(data_folder / "manifest.csv")
    options = ["--out", job, "--model", str(checkpoint), "--shard", "32", "--workers", "1"]
    done = cxrtext("job", "embed", manifest, *options, "--part", "2/2")
    assert "16 of 48 images (1 of 2 shards done, 0 failed, 1 left), 0 rejected" in done.stdout
    status = json.loads(cxrtext("job", "status", job, "--json").stdout)
    assert (status["rows_done"], status["shards_left"], status["failures"]) == (16, 1, {})
    assert "1 of 2 shards are missing (0)" in refused("job", "finish", job, "--out", tmp_path / "i")
    done = cxrtext("job", "embed", manifest, *options)
    assert "every shard is there" in done.stdout
    made = cxrtext("job", "finish", job, "--out", str(tmp_path / "index"))
    assert "48 images planned, each there exactly once: 48 in 1 index" in made.stdout
    assert "nothing is wrong" in cxrtext("index", "check", str(tmp_path / "index")).stdout
