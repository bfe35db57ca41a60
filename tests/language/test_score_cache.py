"""The cache of scores."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import CxrTextError, DiskError
from cxrtext.language.scoring.cache import ScoreCache, digest_of
from cxrtext.language.scoring.score import encode_pieces
from cxrtext.models.masked_lm import MaskedLanguageModel
from tests.language.conftest import Score

KEYS = [digest_of([number, 7]) for number in range(1300)]


def scores(numbers: range) -> dict[bytes, np.ndarray]:
    return {KEYS[n]: np.array([-n - 0.1, -1e-7 * n], dtype=np.float32) for n in numbers}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scores.sqlite"


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


def test_another_identity_sees_nothing_and_changes_nothing(path: Path) -> None:
    with ScoreCache(path, "a") as ours, ScoreCache(path, "b") as theirs:
        ours.add(scores(range(5)))
        assert theirs.find(KEYS[:5]) == {}
        theirs.add({KEYS[0]: np.array([-9.0], dtype=np.float32)})
        assert ours.find([KEYS[0]])[KEYS[0]][0] == np.float32(-0.1)
        assert theirs.find([KEYS[0]])[KEYS[0]][0] == -9.0


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
def test_two_processes_that_add_at_once_lose_nothing(path: Path) -> None:
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
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with ScoreCache(path, "model") as cache:
        found = cache.find([digest_of([number]) for number in range(4000)])
    assert len(found) == 4000
    assert all((found[digest_of([n])] == -n).all() for n in range(4000))
    assert [p.name for p in path.parent.iterdir()] == ["scores.sqlite"]


def test_a_lock_is_waited_for(path: Path) -> None:
    with ScoreCache(path, "model") as cache:
        other = sqlite3.connect(path, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        release = threading.Timer(0.6, other.commit)
        release.start()
        cache.add(scores(range(3)))
        assert not other.in_transaction
        release.join()
        other.close()
        assert len(cache.find(KEYS[:3])) == 3


def damage(path: Path) -> None:
    with ScoreCache(path, "model") as cache:
        cache.add(scores(range(1000)))
    content = path.read_bytes()
    assert len(content) > 3 * 4096
    path.write_bytes(content[:4096] + b"\x5a" * (len(content) - 4096))


def foreign(path: Path, version: int = 1) -> None:
    with closing(sqlite3.connect(path)) as base:
        base.executescript(
            f"CREATE TABLE bookmarks (address TEXT); PRAGMA user_version = {version};"
        )


@pytest.mark.parametrize("version", [0, 99])
def test_the_database_of_another_program_is_refused_and_left_alone(
    path: Path, version: int
) -> None:
    foreign(path, version)
    before = path.read_bytes()
    refused(path, "is of another version of cxrtext")
    assert path.read_bytes() == before


def refused(path: Path, says: str = "") -> None:
    """It is said in one line that names the file."""
    with (
        pytest.raises(CxrTextError, match=f"{path.name}: .*{says}") as error,
        ScoreCache(path, "model") as cache,
    ):
        cache.find(KEYS)
    assert "\n" not in str(error.value)


def test_what_is_no_cache_is_one_clear_line(path: Path, tmp_path: Path) -> None:
    text = tmp_path / "reports.csv"
    text.write_text("study_id,report\n" + "s1,Clear.\n" * 200)
    refused(text, "is damaged .*; if it is a cache")
    assert text.read_text().startswith("study_id")
    refused(tmp_path)
    refused(text / "scores.sqlite", "cannot be made there")
    damage(path)
    refused(path, "is damaged .*; if it is a cache")


def test_no_report_text_and_no_word_pieces_are_in_the_file(
    tiny: MaskedLanguageModel, score: Score, tmp_path: Path
) -> None:
    score()
    content = (tmp_path / "scores.sqlite").read_bytes()
    for word in (b"lungs", b"pneumothorax", b"heart", b"effusion", b"s1"):
        assert word not in content.lower()
    for pieces in encode_pieces(tiny.tokenizer, ["The lungs are clear.", "No pneumothorax."]):
        assert np.asarray(pieces, dtype="<i4").tobytes() not in content.lower()
        assert digest_of(pieces) in content


def test_a_full_disk_is_one_line_and_what_was_kept_stays(path: Path) -> None:
    with ScoreCache(path, "m") as cache:
        cache.add(scores(range(1)))
    with (
        pytest.raises(DiskError, match=r"scores\.sqlite: .*full; make room") as e,
        ScoreCache(path, "m") as cache,
    ):
        cache._base.execute("PRAGMA max_page_count = 8")
        cache.add(scores(range(1300)))
    assert "\n" not in str(e.value)
    with ScoreCache(path, "m") as cache:
        assert cache.find(KEYS).keys() == {KEYS[0]}
