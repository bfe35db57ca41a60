"""Scores that are kept: the cache, a run's sentences, and what a stopped run has scored."""

import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import DataError, WorkError
from cxrtext.language import ScoreSettings
from cxrtext.language.class_probability import Words
from cxrtext.language.scoring import cache as cache_module
from cxrtext.language.scoring import store as store_module
from cxrtext.language.scoring.cache import ScoreCache, damaged_scores, digest_of
from cxrtext.language.scoring.score import encode_pieces
from cxrtext.language.scoring.store import PartialScores, SentenceStore, open_store
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.records import Sentence
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


def test_a_lock_that_is_never_given_up_is_one_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "BUSY_SECONDS", 0.1)
    with ScoreCache(path, "model") as cache, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DataError, match=r"scores\.sqlite: .*locked"):
            cache.add(scores(range(3)))
        with pytest.raises(DataError, match="locked"):
            ScoreCache(path, "model")


def damage(path: Path) -> None:
    with ScoreCache(path, "model") as cache:
        cache.add(scores(range(1000)))
    content = path.read_bytes()
    assert len(content) > 3 * 4096
    path.write_bytes(content[:4096] + b"\x5a" * (len(content) - 4096))


def test_a_schema_that_is_no_text_is_one_line(path: Path) -> None:
    with ScoreCache(path, "model") as cache:
        cache.add(scores(range(3)))
    path.write_bytes(path.read_bytes().replace(b"PRIMARY KEY", b"PRIMARY K\xc5Y"))
    for read in (lambda: ScoreCache(path, "model"), lambda: damaged_scores(path)):
        with pytest.raises(DataError, match="the cache of scores is damaged"):
            read()


def foreign(path: Path, version: int = 1) -> None:
    with closing(sqlite3.connect(path)) as base:
        base.executescript(
            f"CREATE TABLE bookmarks (address TEXT); PRAGMA user_version = {version};"
        )


@pytest.mark.parametrize("version", [0, cache_module.FORMAT, 99])
def test_the_database_of_another_program_is_refused_and_left_alone(
    path: Path, version: int
) -> None:
    foreign(path, version)
    before = path.read_bytes()
    refused(path, "no cache of scores of this version")
    assert path.read_bytes() == before


def test_a_cache_of_a_later_version_is_refused(path: Path) -> None:
    with ScoreCache(path, "model") as cache:
        cache._base.execute(f"PRAGMA user_version = {cache_module.FORMAT + 1}")
    refused(path, "no cache of scores of this version")


def refused(path: Path, says: str = "") -> None:
    """It is said in one line that names the file."""
    with (
        pytest.raises(DataError, match=f"{path.name}: .*{says}") as error,
        ScoreCache(path, "model") as cache,
    ):
        cache.find(KEYS)
    assert "\n" not in str(error.value)


def test_what_is_no_cache_is_one_clear_line(path: Path, tmp_path: Path) -> None:
    text = tmp_path / "reports.csv"
    text.write_text("study_id,report\n" + "s1,Clear.\n" * 200)
    refused(text, "damaged, or no cache; remove it or name")
    assert text.read_text().startswith("study_id")
    refused(tmp_path)
    refused(text / "scores.sqlite", "cannot be made there")
    damage(path)
    refused(path, "damaged, or no cache; remove it or name")


@pytest.mark.parametrize("kind", ["damaged", "foreign", "folder"])
def test_a_run_with_a_wrong_cache_says_so_and_leaves_nothing(
    score: Score, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "cache"
    make: dict[str, Any] = {"damaged": damage, "foreign": foreign, "folder": Path.mkdir}
    make[kind](path)
    with pytest.raises(DataError, match="cache"):
        score(cache=path)
    left = {p.name for p in tmp_path.iterdir()}
    # A cache whose first page is whole is found out while the run works; then its work stays.
    assert left - {"out.csv.partial"} == {"cache", "reports.csv"}
    assert kind == "damaged" or "out.csv.partial" not in left


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


IDENTITY = {"source": "abc", "sections": None}

PIECES: list[tuple[int, ...]] = [(5, 6, 7), (5,), (9, 8), (5,), (9, 8), (1, 2, 3), (4,), (5,)]

PLAIN = ScoreSettings(a=0.2, k=0.35, cache=False)


def fill(work: SentenceStore, pieces: list[tuple[int, ...]] = PIECES) -> None:
    for n, each in enumerate(pieces):
        work.add(Sentence(f"s{n}", "findings", n, f"text {each}"), each, Words(len(each), 0))


def partial_scores(*pieces: tuple[int, ...]) -> dict[bytes, np.ndarray]:
    return {digest_of(each): np.array([-p / 8 for p in each], dtype=np.float32) for each in pieces}


def groups(work: SentenceStore) -> list[list[tuple[int, ...]]]:
    return [[pieces for _, pieces in group] for group in work.groups(100, 4096)]


def test_all_sentences_come_back_in_order() -> None:
    with open_store() as work:
        fill(work)
        assert groups(work) == [[(5,), (4,)], [(9, 8)], [(5, 6, 7), (1, 2, 3)]]
        work.set_scores(partial_scores(*PIECES))
        assert groups(work) == []
        results = list(work.results())
        assert [tuple(pieces) for _, _, pieces, _ in results] == PIECES
        assert [s.study_id for s, *_ in results] == [f"s{n}" for n in range(len(PIECES))]
        for sentence, words, pieces, values in results:
            assert sentence.sentence == f"text {tuple(pieces.tolist())}"
            assert sentence.n_tokens == words.words == len(pieces)
            assert values.tolist() == [-p / 8 for p in pieces]
            assert sentence.log_likelihood == -pieces.sum() / 8
        report = work.eta_report(PLAIN, "m")
        assert report.log_likelihood.tolist() == [-18 / 8, -5 / 8, -17 / 8, -6 / 8, -4 / 8]
        assert report.count.tolist() == [1, 3, 2, 1, 1]
        query = "SELECT count(*), total(count), total(length * count), count(tokens) FROM text"
        assert work.numbers(query) == (5, 8, sum(map(len, PIECES)), 5)


@pytest.mark.parametrize("page", [1, 2, 3, 500])
def test_what_the_cache_knows_is_not_scored_whatever_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(store_module, "PAGE", page)
    with open_store() as work, ScoreCache(tmp_path / "c", "m") as cache:
        fill(work)
        cache.add(partial_scores((9, 8), (4,)))
        assert work.look_up(None, cache) == 0
        assert groups(work) == [[(5,)], [(5, 6, 7), (1, 2, 3)]]
        assert work.numbers("SELECT total(cached), count(tokens) FROM text") == (2, 2)


def test_a_text_that_a_stopped_run_scored_stays_in_its_group(tmp_path: Path) -> None:
    with (
        open_store() as work,
        ScoreCache(tmp_path / "c", "m") as cache,
        PartialScores(tmp_path / "w", IDENTITY) as partial,
    ):
        fill(work)
        partial.add(partial_scores((5,), (9, 8)))
        cache.add(partial_scores((5,), (1, 2, 3)))  # the first was in both when the run was killed
        assert work.look_up(partial, cache) == 2
        assert groups(work) == [[(5,), (4,)], [(5, 6, 7)]]
        assert work.numbers("SELECT total(cached), count(tokens) FROM text") == (1, 3)
        assert digest_of((9, 8)) in cache.find([digest_of((9, 8))])


def test_the_file_is_for_its_owner_alone_and_goes_when_the_work_is_done(tmp_path: Path) -> None:
    path = tmp_path / "w"
    with PartialScores(path, IDENTITY) as partial:
        partial.add(partial_scores(*PIECES))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        partial._base.execute("DELETE FROM score")
        assert stat.S_IMODE((tmp_path / "w-journal").stat().st_mode) == 0o600
        partial.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("other", [{**IDENTITY, "source": "abd"}, {**IDENTITY, "longest": 3}, {}])
def test_the_scores_of_another_run_are_not_taken(tmp_path: Path, other: dict[str, str]) -> None:
    key = digest_of((5,))
    with PartialScores(tmp_path / "w", IDENTITY) as partial:
        partial.add(partial_scores((5,)))
    with PartialScores(tmp_path / "w", other) as partial:
        assert partial.find([key]) == {}
    with PartialScores(tmp_path / "w", IDENTITY) as partial:
        assert partial.find([key]).keys() == {key}


@pytest.mark.parametrize("where", ["start", "middle", "end", "cut", "text", "empty"])
def test_a_damaged_file_is_never_read_wrong(tmp_path: Path, where: str) -> None:
    path = tmp_path / "w"
    pieces: list[tuple[int, ...]] = [(n, n + 1) for n in range(2000)]
    written = partial_scores(*pieces)
    with PartialScores(path, IDENTITY) as partial:
        partial.add(written)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "start": b"\x5a" * 200 + content[200:],
            "middle": content[: middle - 9000] + b"\x5a" * 18000 + content[middle + 9000 :],
            "end": content + b'{"torn": -1',
            "cut": content[: middle + 100],
            "text": b'{"format": 1}\n7',
            "empty": b"",
        }[where]
    )
    with open_store() as work:
        fill(work, pieces)
        with PartialScores(path, IDENTITY) as partial:
            # Bytes behind the last page are none of the database's; it is whole.
            assert work.look_up(partial, None) == (2000 if where == "end" else 0)
            partial.add(partial_scores((3, 4)))
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_is_one_line_and_the_work_is_kept(tmp_path: Path) -> None:
    path, key = tmp_path / "w", digest_of((5,))
    with PartialScores(path, IDENTITY) as partial:
        partial.add(partial_scores((5,)))
    with (
        pytest.raises(WorkError, match=r"w: the work file cannot be used .*full.*make room") as e,
        PartialScores(path, IDENTITY) as partial,
    ):
        partial._base.execute("PRAGMA max_page_count = 20")
        partial.add(partial_scores(*[(n, n + 1) for n in range(10_000)]))
    assert "\n" not in str(e.value)
    with PartialScores(path, IDENTITY) as partial:
        assert partial.find([key]).keys() == {key}


def test_a_full_temporary_folder_is_one_line() -> None:
    with (
        pytest.raises(WorkError, match=r"temporary folder has no room .*full.*SQLITE_TMPDIR") as e,
        open_store() as work,
    ):
        work.base.execute("PRAGMA max_page_count = 20")
        fill(work, [(n, n + 1) for n in range(10_000)])
    assert "\n" not in str(e.value)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with pytest.raises(WorkError, match="w: the work file cannot be used"):
        PartialScores(tmp_path / "w", IDENTITY)
