"""``cxrtext job``: the whole way of an embed job, and what it says."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import cxrtext


@pytest.mark.slow
def test_an_archive_is_embedded_and_indexed(
    data_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    job, manifest = str(tmp_path / "job"), str(data_folder / "manifest.csv")
    index = tmp_path / "index"
    options = ["--out", job, "--model", str(checkpoint), "--index", str(index)]
    options += ["--shard", "32", "--workers", "1"]
    done = cxrtext("job", "embed", manifest, *options)
    assert "48 of 48 images (2 of 2 shards), 0 rejected" in done.stdout
    assert f"{index}: 48 images, each there exactly once" in done.stdout
    assert "nothing is wrong" in cxrtext("index", "check", str(index)).stdout
    status = json.loads(cxrtext("job", "status", job, "--json").stdout)
    assert (status["rows_done"], status["shards_done"], status["rejected"]) == (48, 2, 0)
