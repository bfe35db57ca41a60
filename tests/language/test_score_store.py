"""The sentences of a scoring run, and the scores of one that was stopped."""

import stat
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import WorkError
from cxrtext.language.class_probability import Words
from cxrtext.language.scoring import store as store_module
from cxrtext.language.scoring.cache import ScoreCache, digest_of
from cxrtext.language.scoring.settings import ScoreSettings
from cxrtext.language.scoring.store import PartialScores, SentenceStore, open_store
from cxrtext.records import Sentence

IDENTITY = {"source": "abc", "sections": None}

PIECES: list[tuple[int, ...]] = [(5, 6, 7), (5,), (9, 8), (5,), (9, 8), (1, 2, 3), (4,), (5,)]

PLAIN = ScoreSettings(a=0.2, k=0.35, cache=False)


def fill(work: SentenceStore, pieces: list[tuple[int, ...]] = PIECES) -> None:
    for n, each in enumerate(pieces):
        work.add(Sentence(f"s{n}", "findings", n, f"text {each}"), each, Words(len(each), 0))


def scores(*pieces: tuple[int, ...]) -> dict[bytes, np.ndarray]:
    return {digest_of(each): np.array([-p / 8 for p in each], dtype=np.float32) for each in pieces}


def groups(work: SentenceStore) -> list[list[tuple[int, ...]]]:
    return [[pieces for _, pieces in group] for group in work.groups(100, 4096)]


def test_all_sentences_come_back_in_order() -> None:
    with open_store() as work:
        fill(work)
        assert groups(work) == [[(5,), (4,)], [(9, 8)], [(5, 6, 7), (1, 2, 3)]]
        work.set_scores(scores(*PIECES))
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
        assert [work.example(n) for n in range(3)] == ["text (5, 6, 7)", "text (5,)", "text (9, 8)"]
        query = "SELECT count(*), total(count), total(length * count), count(tokens) FROM text"
        assert work.numbers(query) == (5, 8, sum(map(len, PIECES)), 5)


@pytest.mark.parametrize("page", [1, 2, 3, 500])
def test_what_the_cache_knows_is_not_scored_whatever_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(store_module, "PAGE", page)
    with open_store() as work, ScoreCache(tmp_path / "c", "m") as cache:
        fill(work)
        cache.add(scores((9, 8), (4,)))
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
        partial.add(scores((5,), (9, 8)))
        cache.add(scores((5,), (1, 2, 3)))  # the first was in both when the run was killed
        assert work.look_up(partial, cache) == 2
        assert groups(work) == [[(5,), (4,)], [(5, 6, 7)]]
        assert work.numbers("SELECT total(cached), count(tokens) FROM text") == (1, 3)
        assert digest_of((9, 8)) in cache.find([digest_of((9, 8))])


def test_the_file_is_for_its_owner_alone_and_goes_when_the_work_is_done(tmp_path: Path) -> None:
    path = tmp_path / "w"
    with PartialScores(path, IDENTITY) as partial:
        partial.add(scores(*PIECES))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        partial._base.execute("DELETE FROM score")
        assert stat.S_IMODE((tmp_path / "w-journal").stat().st_mode) == 0o600
        partial.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("other", [{**IDENTITY, "source": "abd"}, {**IDENTITY, "longest": 3}, {}])
def test_the_scores_of_another_run_are_not_taken(tmp_path: Path, other: dict[str, str]) -> None:
    key = digest_of((5,))
    with PartialScores(tmp_path / "w", IDENTITY) as partial:
        partial.add(scores((5,)))
    with PartialScores(tmp_path / "w", other) as partial:
        assert partial.find([key]) == {}
    with PartialScores(tmp_path / "w", IDENTITY) as partial:
        assert partial.find([key]).keys() == {key}


@pytest.mark.parametrize("where", ["start", "middle", "end", "cut", "text", "empty"])
def test_a_damaged_file_is_never_read_wrong(tmp_path: Path, where: str) -> None:
    path = tmp_path / "w"
    pieces: list[tuple[int, ...]] = [(n, n + 1) for n in range(2000)]
    written = scores(*pieces)
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
            partial.add(scores((3, 4)))
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_is_one_line_and_the_work_is_kept(tmp_path: Path) -> None:
    path, key = tmp_path / "w", digest_of((5,))
    with PartialScores(path, IDENTITY) as partial:
        partial.add(scores((5,)))
    with (
        pytest.raises(WorkError, match=r"w: the work file cannot be used .*full.*make room") as e,
        PartialScores(path, IDENTITY) as partial,
    ):
        partial._base.execute("PRAGMA max_page_count = 20")
        partial.add(scores(*[(n, n + 1) for n in range(10_000)]))
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
