"""The work file of a scoring run: what it keeps, in what order, and when it begins anew."""

import stat
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import WorkError
from cxrtext.language.class_probability import Words
from cxrtext.language.scoring import work as work_module
from cxrtext.language.scoring.cache import ScoreCache, digest_of
from cxrtext.language.scoring.work import ScoreWork
from cxrtext.records import Sentence

IDENTITY = {"source": "abc", "sections": None}

PIECES: list[tuple[int, ...]] = [(5, 6, 7), (5,), (9, 8), (5,), (9, 8), (1, 2, 3), (4,), (5,)]


def fill(work: ScoreWork, pieces: list[tuple[int, ...]] = PIECES) -> None:
    work.add_sentences(
        (Sentence(f"s{n}", "findings", n, f"text {each}"), each, Words(len(each), 0))
        for n, each in enumerate(pieces)
    )
    work.commit()


def score(work: ScoreWork, numbers: list[int]) -> None:
    texts = {text.id: text for text in work.to_score()}
    work.add_scores(
        {n: np.array([-p / 8 for p in texts[n].pieces], dtype=np.float32) for n in numbers}
    )
    work.commit()


@pytest.mark.parametrize("page", [1, 2, 3, 2000])
def test_all_sentences_come_back_in_order_whatever_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(work_module, "PAGE", page)
    with ScoreWork(tmp_path / "w", IDENTITY) as work:
        fill(work)
        work.plan(None)
        texts = list(work.to_score())
        assert [t.pieces for t in texts] == [(5,), (4,), (9, 8), (5, 6, 7), (1, 2, 3)]
        assert not any(t.scored for t in texts)
        score(work, [t.id for t in texts])
        results = list(work.results())
        assert [pieces for _, pieces, _ in results] == PIECES
        assert [s.study_id for s, _, _ in results] == [f"s{n}" for n in range(len(PIECES))]
        for sentence, pieces, values in results:
            assert sentence.sentence == f"text {pieces}"
            assert sentence.n_tokens == len(pieces)
            assert values.tolist() == [-p / 8 for p in pieces]
            assert sentence.log_likelihood == -sum(pieces) / 8
        log_likelihood, count = work.values()
        assert log_likelihood.tolist() == [-18 / 8, -5 / 8, -17 / 8, -6 / 8, -4 / 8]
        assert count.tolist() == [1, 3, 2, 1, 1]
        assert [work.example(n) for n in range(3)] == ["text (5, 6, 7)", "text (5,)", "text (9, 8)"]
        assert work.tokens() == sum(map(len, PIECES))
        assert (work.count("sentence"), work.count("text"), work.scored()) == (8, 5, 5)


def test_what_the_cache_knows_is_not_scored(tmp_path: Path) -> None:
    with ScoreWork(tmp_path / "w", IDENTITY) as work, ScoreCache(tmp_path / "c", "m") as cache:
        fill(work)
        cache.add({digest_of((9, 8)): np.array([-1.5, -2.0], dtype=np.float32)})
        work.plan(cache)
        assert [t.pieces for t in work.to_score()] == [(5,), (4,), (5, 6, 7), (1, 2, 3)]
        assert (work.known(), work.scored()) == (1, 1)


def test_a_text_that_was_scored_stays_in_its_group(tmp_path: Path) -> None:
    with ScoreWork(tmp_path / "w", IDENTITY) as work:
        fill(work)
        work.plan(None)
        score(work, [2])
    with ScoreWork(tmp_path / "w", IDENTITY) as work:
        texts = list(work.to_score())
        assert [t.scored for t in texts] == [True, False, False, False, False]
        assert texts[0].pieces == (5,)


def test_the_file_is_for_its_owner_alone_and_goes_when_the_work_is_done(tmp_path: Path) -> None:
    path = tmp_path / "w"
    with ScoreWork(path, IDENTITY) as work:
        fill(work)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        work.reject("row 3", "not text")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["w", "w-journal"]
        assert stat.S_IMODE((tmp_path / "w-journal").stat().st_mode) == 0o600
        work.remove()
    assert not list(tmp_path.iterdir())


def test_what_was_not_committed_is_gone_and_the_rest_is_there(tmp_path: Path) -> None:
    with ScoreWork(tmp_path / "w", IDENTITY) as work:
        fill(work)
        work.reject("row 3", "not text")
        work.set_facts({"items": 9})
        work.commit()
        work.reject("row 4", "not text")
        work.set_facts({"items": 10})
    with ScoreWork(tmp_path / "w", IDENTITY) as work:
        assert work.rejected() == [("row 3", "not text")]
        assert (work.fact("items"), work.fact("other")) == (9, 0)
        assert work.count("sentence") == 8


@pytest.mark.parametrize("other", [{**IDENTITY, "source": "abd"}, {**IDENTITY, "longest": 3}, {}])
def test_the_file_of_other_work_is_thrown_away(tmp_path: Path, other: dict[str, str]) -> None:
    with ScoreWork(tmp_path / "w", IDENTITY) as work:
        fill(work)
    with ScoreWork(tmp_path / "w", other) as work:
        assert work.count("sentence") == 0
    with ScoreWork(tmp_path / "w", IDENTITY) as work:
        assert work.count("sentence") == 0


@pytest.mark.parametrize("where", ["start", "middle", "end", "cut", "text", "empty"])
def test_a_damaged_file_is_never_read_wrong(tmp_path: Path, where: str) -> None:
    path = tmp_path / "w"
    pieces: list[tuple[int, ...]] = [(n, n + 1) for n in range(2000)]
    with ScoreWork(path, IDENTITY) as work:
        fill(work, pieces)
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
    with ScoreWork(path, IDENTITY) as work:
        # Bytes behind the last page are none of the database's; it is whole.
        assert work.count("sentence") == (2000 if where == "end" else 0)
        fill(work, [(3, 4)])
        assert work.count("text") == (2000 if where == "end" else 1)


def test_a_full_disk_is_one_line_and_the_work_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "w"
    with ScoreWork(path, IDENTITY) as work:
        fill(work)
    with (
        pytest.raises(WorkError, match=r"w: the work file cannot be used .*full.*make room") as e,
        ScoreWork(path, IDENTITY) as work,
    ):
        work._base.execute("PRAGMA max_page_count = 20")
        fill(work, [(n, n + 1) for n in range(10_000)])
    assert "\n" not in str(e.value)
    with ScoreWork(path, IDENTITY) as work:
        assert work.count("sentence") == 8


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with pytest.raises(OSError, match="w"):
        ScoreWork(tmp_path / "w", IDENTITY)
