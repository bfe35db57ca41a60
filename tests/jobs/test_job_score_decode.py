"""Jobs of scores and of decoded images: what they make is what one process makes."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import ConfigError, DataError
from cxrtext.files.storage import open_storage
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.images.reader_pool import ReadImage
from cxrtext.jobs.decode import DecodeOptions, decode_job, finish_decode
from cxrtext.jobs.driver import EveryNth, Running
from cxrtext.jobs.score import ScoreOptions, finish_score, score_job
from cxrtext.language import ScoreSettings, score_reports
from cxrtext.records import read_manifest
from tests.warm import Warm


@pytest.fixture(scope="module")
def scored(
    archive_folder: Path, language_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A score job in two parts; read-only by convention."""
    folder = tmp_path_factory.mktemp("scored") / "job"
    reports, options = archive_folder / "reports.csv", ScoreOptions(shard=10)
    for number in (2, 1):
        part = Running(part=EveryNth(number, 2))
        status = score_job(reports, str(folder), language_model, options, part)
    assert status.is_done
    assert status.shards > 3
    assert status.unit == "sentences"
    return folder


def test_the_table_of_a_job_is_that_of_score_text(
    scored: Path, archive_folder: Path, language_model: Path, tmp_path: Path
) -> None:
    reports = archive_folder / "reports.csv"
    settings = ScoreSettings(cache=False, fit=True, tokens=tmp_path / "one-tokens.csv")
    score_reports(reports, tmp_path / "one.csv", settings, model=language_model)
    settings = ScoreSettings(fit=True, tokens=tmp_path / "job-tokens.csv")
    summary = finish_score(str(scored), tmp_path / "job.csv", settings=settings)
    for name in ("", "-tokens"):
        one, job = ((tmp_path / f"{made}{name}.csv").read_bytes() for made in ("one", "job"))
        assert one == job
    assert summary.sentences == 110
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("job")) == [
        "job-tokens.csv", "job.csv", "job.csv.meta.json"
    ]  # fmt: skip


KILLED = """
import os, sys
from pathlib import Path
from cxrtext.jobs import score

score.score_reports = lambda *_, **__: os._exit(3)
score.finish_score(sys.argv[1], Path(sys.argv[2]))
"""


def test_a_finish_that_was_killed_leaves_nothing_for_the_next_one(
    scored: Path, tmp_path: Path, warm: Warm
) -> None:
    out = tmp_path / "new" / "job.csv"
    with warm.start(["-c", KILLED, str(scored), str(out)]) as child:
        assert child.wait(600) == 3, child.stderr.read()
    assert len(list(out.parent.iterdir())) == 1
    finish_score(str(scored), out)
    assert sorted(path.name for path in out.parent.iterdir()) == ["job.csv", "job.csv.meta.json"]


def test_a_score_job_holds_no_text(scored: Path) -> None:
    for name in open_storage(scored).names():
        assert b"effusion" not in (scored / name).read_bytes()


def test_other_text_is_refused(
    scored: Path, archive_folder: Path, language_model: Path, tmp_path: Path
) -> None:
    reports = tmp_path / "reports.csv"
    reports.write_text((archive_folder / "reports.csv").read_text().replace("Follow", "Look"))
    with pytest.raises(DataError, match="begun with another text"):
        score_job(reports, str(scored), language_model, ScoreOptions(shard=10))
    with pytest.raises(DataError, match="the text is another one"):
        finish_score(str(scored), tmp_path / "t.csv", reports=reports)
    with pytest.raises(DataError, match="'cxrtext job score', not decode"):
        decode_job(archive_folder / "manifest.csv", str(scored))
    with pytest.raises(ConfigError, match="standard input"):
        score_job(Path("-"), str(tmp_path / "job"), language_model)


def test_a_filled_cache_decodes_nothing_more(
    archive_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, job = archive_folder / "manifest.csv", str(tmp_path / "job")
    status = decode_job(manifest, job, DecodeOptions(resize=64, shard=40))
    assert (status.is_done, status.rejected) == (True, 1)
    made = finish_decode(job, tmp_path / "cache")
    assert (made.planned, made.added, made.rejected) == (110, 109, 1)
    assert finish_decode(job, tmp_path / "cache").added == 0
    paths = [record.path for record in read_manifest(manifest) if "a070" not in record.name]
    sizes = Preprocessing(resize=64, crop=60)
    expected = [*DecodedCache(tmp_path / "other").read(paths, sizes, processes=0)]
    monkeypatch.setattr("cxrtext.images.reader_pool.decode_image", None)  # nothing is decoded
    read = [*DecodedCache(tmp_path / "cache").read(paths, sizes, processes=0)]
    for one, other in zip(read, expected, strict=True):
        assert isinstance(one, ReadImage)
        assert isinstance(other, ReadImage)
        assert np.array_equal(one.pixels, other.pixels)
        assert (one.height, one.width) == (other.height, other.width)
    assert DecodedCache(tmp_path / "cache").damaged() == []
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(DataError, match="the manifest is another one"):
        finish_decode(job, tmp_path / "cache", manifest=archive_folder / "reports.csv")
