"""A job whose shards lie on an object store, with processes of its own."""

import sqlite3
from contextlib import closing
from pathlib import Path

from cxrtext.files.storage import open_storage
from cxrtext.index.build import build_index
from cxrtext.jobs.embed import EmbedOptions, embed_job, finish_embed
from cxrtext.jobs.status import job_status
from tests.s3 import bucket, server

__all__ = ["bucket", "server"]


def test_a_job_on_s3_makes_the_index_of_one_process(
    bucket: str, archive_folder: Path, checkpoint: Path, tmp_path: Path
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
    build_index(manifest, checkpoint, tmp_path / "one")
    assert (finished.images, finished.rejected) == (109, 1)
    for path in (tmp_path / "one").glob("*.vectors"):
        assert path.read_bytes() == (tmp_path / "job" / path.name).read_bytes()
    counts = []
    for name in ("job", "one"):
        with closing(sqlite3.connect(tmp_path / name / "catalogue.sqlite")) as base:
            counts.append(base.execute("SELECT image, study_id FROM images").fetchall())
    assert counts[0] == counts[1]
