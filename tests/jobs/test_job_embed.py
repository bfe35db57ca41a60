"""An embed job and its index are those of one process, wherever shards lie and who is killed."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.index.build import build_index
from cxrtext.jobs import embed
from cxrtext.jobs.embed import EmbedOptions, embed_job
from cxrtext.jobs.shards import committed
from tests.jobs.kill_job import digests, rows_of


@pytest.fixture(scope="module")
def built(archive_folder: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "index"
    build_index(archive_folder / "manifest.csv", checkpoint, folder)
    return folder


OPTIONS = EmbedOptions(shard=20)


@pytest.fixture(scope="module")
def job(archive_folder: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job, its index beside it; read-only by convention."""
    folder = tmp_path_factory.mktemp("job") / "job"
    manifest = archive_folder / "manifest.csv"
    embed_job(manifest, checkpoint, folder, folder.with_name("index"), OPTIONS)
    return folder


def index_of(folder: Path) -> list[object]:
    """The digests of an index's vectors, and the rows of its catalogue."""
    return [digests(folder, "*.vectors"), rows_of(folder)]


def test_the_index_of_a_job_is_that_of_one_process(
    job: Path, built: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    index = job.with_name("index")
    assert index_of(index) == index_of(built)
    listed = index.with_name("index.rejected.csv").read_text()
    assert listed == built.with_name("index.rejected.csv").read_text()
    assert "a070.png" in listed
    manifest = archive_folder / "manifest.csv"
    again = embed_job(manifest, checkpoint, job, index, OPTIONS)
    assert again.images == 109
    assert index_of(index) == index_of(built)
    with pytest.raises(
        DataError, match=r"1 bad items, more than --max-rejected 0; the last: images/a070"
    ):
        strict = replace(OPTIONS, max_rejected=0)
        embed_job(manifest, checkpoint, job, tmp_path / "strict", strict)
    assert not (tmp_path / "strict").exists()


def test_an_index_of_something_else_is_refused(
    job: Path, archive_folder: Path, checkpoint: Path, index_folder: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(index_folder, tmp_path / "other"))
    with pytest.raises(DataError, match="holds another index"):
        embed_job(archive_folder / "manifest.csv", checkpoint, job, other, OPTIONS)
    with pytest.raises(ConfigError, match="is in the folder of the job"):
        embed_job(archive_folder / "manifest.csv", checkpoint, job, job / "index", OPTIONS)
    with pytest.raises(ConfigError, match="--workers: a cluster has its own"):
        replace(OPTIONS, address="tcp://head:8786", workers=2)


def test_a_shard_made_again_has_the_same_bytes(
    job: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    manifest = archive_folder / "manifest.csv"
    embed_job(manifest, checkpoint, tmp_path / "again", tmp_path / "index", OPTIONS)
    shards = digests(job / "shards", "*")
    assert digests(tmp_path / "again/shards", "*") == shards
    assert [name.split(".")[1:3] for name in shards] == [
        ["32", "0"], ["32", "0"], ["31", "1"], ["14", "0"]
    ]  # fmt: skip


def test_a_damaged_or_missing_shard_is_said_and_made_again(
    job: Path, built: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    folder, manifest = Path(shutil.copytree(job, tmp_path / "job")), archive_folder / "manifest.csv"
    index, files = tmp_path / "index", committed(folder)
    whole = (folder / files[1].name).read_bytes()
    (folder / files[0].name).write_bytes(b"half")
    (folder / files[1].name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (folder / files[2].name).unlink()
    with pytest.raises(CheckpointError, match=r"2 shard\(s\) are damaged .* and were removed; run"):
        embed_job(manifest, checkpoint, folder, index, OPTIONS)
    embed_job(manifest, checkpoint, folder, index, OPTIONS)
    assert (folder / files[1].name).read_bytes() == whole
    assert index_of(index) == index_of(built)


def test_a_job_that_is_started_again_checks_no_row_again(
    job: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delattr(embed, "checked_manifest")
    index = tmp_path / "index"
    made = embed_job(archive_folder / "manifest.csv", checkpoint, job, index, OPTIONS)
    assert made.images == 109


@pytest.mark.parametrize("what", ["manifest", "table of reports", "--storage", "images a shard"])
def test_another_table_or_option_is_refused_by_name(
    what: str, job: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    data = Path(shutil.copytree(archive_folder, tmp_path / "data"))
    tables = {"manifest": "manifest.csv", "table of reports": "reports.csv"}
    options = {
        "--storage": replace(OPTIONS, storage="int8"),
        "images a shard": replace(OPTIONS, shard=70),
    }
    if what in tables:
        with (data / tables[what]).open("a") as handle:
            handle.write("\n")
    with pytest.raises(DataError, match=f"begun with another {what} ") as caught:
        asked = options.get(what, OPTIONS)
        embed_job(data / "manifest.csv", checkpoint, job, tmp_path / "index", asked)
    assert "\n" not in str(caught.value)


SCRIPT = Path(__file__).with_name("kill_job.py")


@pytest.mark.slow
def test_a_killed_job_makes_the_same_shards_and_index(
    checkpoint: Path, archive_folder: Path, tmp_path: Path
) -> None:
    job = [str(checkpoint), str(archive_folder / "manifest.csv"), str(tmp_path), "--kills", "4"]
    done = subprocess.run(
        [sys.executable, SCRIPT, *job], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    assert "4 kills" in done.stdout
