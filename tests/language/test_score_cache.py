"""The cache of scores: what is in it stays, and nothing else is taken for it."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.language import ScoreSettings, score_reports
from cxrtext.language.scoring import cache as cache_module
from cxrtext.language.scoring.cache import ScoreCache, damaged_scores, digest_of
from cxrtext.language.scoring.score import encode_pieces
from cxrtext.models.masked_lm import MaskedLanguageModel

KEYS = [digest_of([number, 7]) for number in range(1300)]


def scores(numbers: range) -> dict[bytes, np.ndarray]:
    return {KEYS[n]: np.array([-n - 0.1, -1e-7 * n], dtype=np.float32) for n in numbers}


def test_scores_are_there_bit_for_bit_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "below" / "scores.sqlite"
    with ScoreCache(path, "model float32") as cache:
        cache.add(scores(range(1200)))
    with ScoreCache(path, "model float32") as cache:
        found = cache.find(KEYS)  # more than one query's worth
        assert found.keys() == set(KEYS[:1200])
        for key, value in scores(range(1200)).items():
            assert found[key].dtype == np.float32
            assert found[key].tobytes() == value.tobytes()
        assert cache.find([]) == {}


def test_another_identity_sees_nothing_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    with ScoreCache(path, "a") as ours, ScoreCache(path, "b") as theirs:
        ours.add(scores(range(5)))
        assert theirs.find(KEYS[:5]) == {}
        theirs.add({KEYS[0]: np.array([-9.0], dtype=np.float32)})
        assert ours.find([KEYS[0]])[KEYS[0]][0] == np.float32(-0.1)
        assert theirs.find([KEYS[0]])[KEYS[0]][0] == -9.0


def test_the_digest_tells_order_and_length_apart() -> None:
    sentences = [[1, 2], [2, 1], [1], [1, 2, 0], [258], [0, 1]]
    assert len({digest_of(pieces) for pieces in sentences}) == len(sentences)
    assert len(digest_of([5])) == 16


WRITER = """
import sys
from pathlib import Path
import numpy as np
from cxrtext.language.scoring.cache import ScoreCache, digest_of
first = int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
with ScoreCache(Path(sys.argv[1]), "model") as cache:
    for start in range(first, first + 2000, 20):
        cache.add({digest_of([n]): np.full(2, -n, "f4") for n in range(start, start + 20)})
"""


@pytest.mark.slow
def test_two_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in ("0", "2000")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # so that they make the file and add to it at the same moment
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=600)
        assert writer.returncode == 0, errors
    base = sqlite3.connect(path)
    assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    base.close()
    with ScoreCache(path, "model") as cache:
        found = cache.find([digest_of([number]) for number in range(4000)])
    assert len(found) == 4000
    assert all((found[digest_of([n])] == -n).all() for n in range(4000))
    assert [p.name for p in tmp_path.iterdir()] == ["scores.sqlite"]


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    with ScoreCache(path, "model") as cache:
        other = sqlite3.connect(path, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        given_up = threading.Event()

        def give_up() -> None:
            given_up.set()
            other.commit()

        release = threading.Timer(0.6, give_up)
        release.start()
        cache.add(scores(range(3)))
        assert given_up.is_set()
        release.join()
        other.close()
        assert len(cache.find(KEYS[:3])) == 3


def test_a_lock_that_is_never_given_up_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "BUSY_SECONDS", 0.1)
    path = tmp_path / "scores.sqlite"
    with ScoreCache(path, "model") as cache:
        other = sqlite3.connect(path)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DataError, match=r"scores\.sqlite: .*locked"):
            cache.add(scores(range(3)))
        with pytest.raises(DataError, match="locked"):
            ScoreCache(path, "model")
        other.close()


def damage(path: Path) -> None:
    """Overwrite everything behind the first page."""
    with ScoreCache(path, "model") as cache:
        cache.add(scores(range(1000)))
    content = path.read_bytes()
    assert len(content) > 3 * 4096
    path.write_bytes(content[:4096] + b"\x5a" * (len(content) - 4096))


def test_a_schema_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    with ScoreCache(path, "model") as cache:
        cache.add(scores(range(3)))
    path.write_bytes(path.read_bytes().replace(b"PRIMARY KEY", b"PRIMARY K\xc5Y"))
    for read in (lambda: ScoreCache(path, "model"), lambda: damaged_scores(path)):
        with pytest.raises(DataError, match="the cache of scores is damaged"):
            read()


def foreign(path: Path, version: int) -> None:
    """A database of another program."""
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE bookmarks (address TEXT)")
    base.execute(f"PRAGMA user_version = {version}")
    base.commit()
    base.close()


@pytest.mark.parametrize("version", [0, cache_module.FORMAT, 99])
def test_the_database_of_another_program_is_refused_and_left_alone(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "places.sqlite"
    foreign(path, version)
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"places\.sqlite: no cache of scores of this version"):
        ScoreCache(path, "model")
    assert path.read_bytes() == before


def test_a_cache_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    with ScoreCache(path, "model"):
        pass
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA user_version = {cache_module.FORMAT + 1}")
    base.close()
    with pytest.raises(DataError, match="no cache of scores of this version"):
        ScoreCache(path, "model")


def one_line(error: pytest.ExceptionInfo[DataError], name: str) -> None:
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_cache_is_one_clear_line(tmp_path: Path) -> None:
    text = tmp_path / "reports.csv"
    text.write_text("study_id,report\n" + "s1,Clear.\n" * 200)
    with pytest.raises(DataError, match="damaged, or no cache; remove it or name") as error:
        ScoreCache(text, "model")
    one_line(error, "reports.csv")
    assert text.read_text().startswith("study_id")
    with pytest.raises(DataError) as error:
        ScoreCache(tmp_path, "model")
    one_line(error, str(tmp_path))
    with pytest.raises(DataError, match="cannot be made there") as error:
        ScoreCache(text / "scores.sqlite", "model")
    one_line(error, "scores.sqlite")


def test_a_damaged_cache_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    damage(path)
    with (
        pytest.raises(DataError, match="damaged, or no cache; remove it or name") as error,
        ScoreCache(path, "model") as cache,
    ):
        cache.find(KEYS)
    one_line(error, "scores.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(DataError) as error:
        ScoreCache(folder / "scores.sqlite", "model")
    one_line(error, "scores.sqlite")


@pytest.mark.parametrize("kind", ["damaged", "foreign", "folder"])
def test_a_run_with_a_wrong_cache_says_so_and_leaves_nothing(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "cache"
    if kind == "damaged":
        damage(path)
    elif kind == "foreign":
        foreign(path, 1)
    else:
        path.mkdir()
    with pytest.raises(DataError, match="cache"):
        score_reports(reports, tmp_path / "out.csv", ScoreSettings(cache=path), model=tiny)
    left = {p.name for p in tmp_path.iterdir()}
    # A cache whose first page is whole is found out while the run works; then its work stays.
    assert left - {"out.csv.partial"} == {"cache", "reports.csv"}
    assert kind == "damaged" or "out.csv.partial" not in left


def test_no_report_text_and_no_word_pieces_are_in_the_file(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path
) -> None:
    score_reports(reports, tmp_path / "out.csv", model=tiny)
    content = (tmp_path / "scores.sqlite").read_bytes().lower()
    for word in (b"lungs", b"pneumothorax", b"heart", b"effusion", b"s1"):
        assert word not in content
    for pieces in encode_pieces(tiny.tokenizer, ["The lungs are clear.", "No pneumothorax."]):
        assert np.asarray(pieces, dtype="<i4").tobytes() not in content
        assert digest_of(pieces) in (tmp_path / "scores.sqlite").read_bytes()
