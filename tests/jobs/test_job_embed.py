"""An embed job and its index are those of one process, wherever shards lie and who is killed."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from cxrtext.errors import CheckpointError, DataError
from cxrtext.files.storage import open_storage
from cxrtext.index.build import build_index
from cxrtext.jobs import embed
from cxrtext.jobs.driver import EveryNth, Running
from cxrtext.jobs.embed import EmbedOptions, embed_job, finish_embed
from cxrtext.jobs.shards import committed
from cxrtext.jobs.status import job_status
from tests.jobs.kill_job import digests, rows_of
from tests.s3 import bucket, server


@pytest.fixture(scope="module")
def built(archive_folder: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "index"
    build_index(archive_folder / "manifest.csv", checkpoint, folder)
    return folder


OPTIONS = EmbedOptions(shard=20)


@pytest.fixture(scope="module")
def job(archive_folder: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with all of its shards, made in two parts; read-only by convention."""
    folder = tmp_path_factory.mktemp("job") / "job"
    for number in (2, 1):
        part = Running(part=EveryNth(number, 2))
        manifest = archive_folder / "manifest.csv"
        status = embed_job(manifest, checkpoint, str(folder), OPTIONS, part)
    assert status.is_done
    return folder


def index_of(folder: Path) -> list[object]:
    """The digests of an index's vectors, and the rows of its catalogue."""
    return [digests(folder, "*.vectors"), rows_of(folder)]


def test_the_index_of_a_job_is_that_of_one_process(job: Path, built: Path, tmp_path: Path) -> None:
    finished = finish_embed(str(job), tmp_path / "index")
    assert (finished.planned, finished.index.images, finished.rejected) == (110, 109, 1)
    assert index_of(tmp_path / "index") == index_of(built)
    listed = (tmp_path / "index.rejected.csv").read_text()
    assert listed == built.with_name("index.rejected.csv").read_text()
    assert "a070.png" in listed
    with pytest.raises(DataError, match="1 rows were rejected, more than --max-rejected 0"):
        finish_embed(str(job), tmp_path / "strict", max_rejected=0)
    assert not (tmp_path / "strict").exists()
    again = finish_embed(str(job), tmp_path / "index")
    assert again.index.images == 109
    assert index_of(tmp_path / "index") == index_of(built)


def test_another_index_is_not_finished_into(job: Path, index_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds another index"):
        finish_embed(str(job), Path(shutil.copytree(index_folder, tmp_path / "other")))


def test_a_shard_made_again_has_the_same_bytes(
    job: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    manifest = archive_folder / "manifest.csv"
    embed_job(manifest, checkpoint, str(tmp_path / "again"), OPTIONS)
    one, other = (open_storage(folder) for folder in (job, tmp_path / "again"))
    assert other.names() == one.names()
    assert all(one.read(name) == other.read(name) for name in one.names())
    shards = one.names("shards/")
    assert [name.split(".")[1:3] for name in shards] == [
        ["32", "0"], ["32", "0"], ["31", "1"], ["14", "0"]
    ]  # fmt: skip


def test_a_damaged_or_missing_shard_is_said_and_made_again(
    job: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(job, tmp_path / "job"))
    storage = open_storage(folder)
    files = committed(storage)
    whole = storage.read(files[1].name)
    (folder / files[1].name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (folder / files[2].name).unlink()
    with pytest.raises(DataError, match=r"1 of 4 shards are missing \(2\)"):
        finish_embed(str(folder), tmp_path / "index")
    storage.commit(files[2].name, b"half")
    with pytest.raises(CheckpointError, match=r"2 shard\(s\) are damaged .* and were removed"):
        finish_embed(str(folder), tmp_path / "index")
    manifest = archive_folder / "manifest.csv"
    assert embed_job(manifest, checkpoint, str(folder), OPTIONS).is_done
    finish_embed(str(folder), tmp_path / "index")
    assert storage.read(files[1].name) == whole


def test_a_job_that_is_started_again_reads_no_shard_and_checks_no_row_again(
    job: Path, archive_folder: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = type(open_storage(job))
    monkeypatch.delattr(embed, "checked_manifest")
    with patch.object(storage, "read", autospec=True, side_effect=storage.read) as read:
        status = embed_job(archive_folder / "manifest.csv", checkpoint, str(job), OPTIONS)
    assert [call.args[1] for call in read.call_args_list] == ["job.json"]
    assert (status.shards, status.shards_done, status.shards_failed) == (4, 4, 0)
    assert (status.rows, status.rows_done, status.rejected) == (110, 110, 1)
    assert status.is_done


@pytest.mark.parametrize("what", ["manifest", "table of reports", "--storage", "--shard"])
def test_another_table_or_option_is_refused_by_name(
    what: str, job: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    data = Path(shutil.copytree(archive_folder, tmp_path / "data"))
    tables = {"manifest": "manifest.csv", "table of reports": "reports.csv"}
    options = {"--storage": replace(OPTIONS, storage="int8"), "--shard": replace(OPTIONS, shard=70)}
    if what in tables:
        with (data / tables[what]).open("a") as handle:
            handle.write("\n")
    with pytest.raises(DataError, match=f"begun with another {what} ") as caught:
        embed_job(data / "manifest.csv", checkpoint, str(job), options.get(what, OPTIONS))
    assert "\n" not in str(caught.value)
    if what in tables:
        with pytest.raises(DataError, match=f"the {what} is another one"):
            finish_embed(str(job), tmp_path / "index", manifest=data / "manifest.csv")


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


__all__ = ["bucket", "server"]


def test_a_job_on_s3_makes_the_index_of_one_process(
    bucket: str, built: Path, archive_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    manifest = archive_folder / "manifest.csv"
    status = embed_job(manifest, checkpoint, bucket, EmbedOptions(shard=20, workers=1))
    assert (status.is_done, status.rows_done, status.rejected) == (True, 110, 1)
    storage = open_storage(bucket)
    first = storage.names("shards/")[0]
    storage.commit(first, storage.read(first)[:-1])  # cut short
    storage.remove(storage.names("shards/")[3])
    said = job_status(storage)
    assert (said.shards_done, said.shards) == (3, 4)
    assert embed_job(manifest, checkpoint, bucket, EmbedOptions(shard=20, workers=1)).is_done
    finished = finish_embed(bucket, tmp_path / "job")
    assert (finished.index.images, finished.rejected) == (109, 1)
    assert index_of(tmp_path / "job") == index_of(built)
