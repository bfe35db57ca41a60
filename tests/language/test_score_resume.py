"""A stopped scoring run goes on, and what was scored once is not scored again."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.errors import WorkError
from cxrtext.files import only_one
from cxrtext.language.scoring.score import Scorer
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.records import read_sentences
from tests.language.conftest import Score, StopError, stop

WORDS = ["lungs", "are", "clear", "left", "pleural", "effusion", "right", "pneumothorax", "no"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Forty reports of about 90 distinct sentences, some of them repeated, one bad row."""
    chance = np.random.default_rng(4)
    rows = []
    for number in range(40):
        sentences = [" ".join(chance.choice(WORDS, int(chance.integers(2, 10)))) for _ in range(2)]
        rows.append(f"s{number},No pneumothorax. {sentences[0]}. {sentences[1]}.")
    rows[17] += ",one cell too many"
    path = tmp_path / "corpus.csv"
    path.write_text("study_id,report\n" + "\n".join(rows) + "\n")
    return path


def test_the_work_of_another_text_or_model_is_thrown_away(
    tiny: MaskedLanguageModel, score: Score, reports: Path, tmp_path: Path
) -> None:
    other = MaskedLanguageModel(tiny.model, tiny.tokenizer, "other", "0" * 64)
    for cache in (False, True):
        with pytest.raises(StopError):
            score(cache=cache, progress=stop)
        summary = score(cache=cache, model=other)
        assert summary.from_cache == 0
    with pytest.raises(StopError):
        score(cache=False, progress=stop)
    reports.write_text("study_id,report\ns1,The lungs are clear.\n")
    summary = score(cache=False)
    assert (summary.from_cache, summary.sentences) == (0, 1)
    assert not (tmp_path / "out.csv.partial").exists()


def test_the_output_is_made_by_one_run_at_a_time(score: Score, tmp_path: Path) -> None:
    with (
        only_one(tmp_path / "out.csv"),
        pytest.raises(WorkError, match=r"out\.csv: another process is making this file"),
    ):
        score()
    assert [p.name for p in tmp_path.iterdir()] == ["reports.csv"]


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of sentences each time the network is asked."""
    counts: list[int] = []
    plain = Scorer.score

    def score(self: Scorer, group: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        counts.append(len(group))
        return plain(self, group)

    monkeypatch.setattr(Scorer, "score", score)
    return counts


def test_a_stopped_run_goes_on_in_the_same_groups(
    score: Score, corpus: Path, tmp_path: Path, scored: list[int]
) -> None:
    """Stopped in the middle; some sentences are known from another text, one of each length."""
    known = [" ".join(WORDS[:count]) for count in range(2, 10)]
    (tmp_path / "known.csv").write_text("sentence\n" + "".join(f"{text}.\n" for text in known))
    options = {"cache": tmp_path / "cache.db", "batch_tokens": 200}
    score("known-scored.csv", tmp_path / "known.csv", **options)
    shutil.copy(tmp_path / "cache.db", tmp_path / "other.db")
    scored.clear()
    score("whole.csv", corpus, cache=tmp_path / "other.db", batch_tokens=200)
    groups = list(scored)
    assert len(groups) > 6
    assert max(groups) > 3
    scored.clear()

    def stop_in_the_middle(done: int, total: int) -> None:
        if done > total // 2:
            raise StopError

    with pytest.raises(StopError):
        score("stopped.csv", corpus, progress=stop_in_the_middle, **options)
    assert not (tmp_path / "stopped.csv").exists()
    score("stopped.csv", corpus, **options)
    assert scored == groups
    assert (tmp_path / "stopped.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_without_a_cache_a_stopped_run_goes_on_too(
    score: Score, tmp_path: Path, scored: list[int]
) -> None:
    with pytest.raises(StopError):
        score(progress=stop, cache=False, batch_tokens=8)
    assert (tmp_path / "out.csv.partial").exists()
    assert score(cache=False, batch_tokens=8).from_cache == scored[0]
    assert sum(scored) == 4
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out.csv", "out.csv.meta.json"]


def test_a_grown_corpus_costs_its_new_sentences_only(
    score: Score, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    score()
    assert sum(scored) == 4
    scored.clear()
    before = {r.sentence: r.log_likelihood for r in read_sentences(tmp_path / "out.csv")}
    with reports.open("a") as handle:
        handle.write("s7,Heart size is normal. Pneumothorax is seen.,The lungs are clear.,\n")
    summary = score()
    assert sum(scored) == 1
    assert (summary.from_cache, summary.distinct_sentences) == (4, 5)
    rows = read_sentences(tmp_path / "out.csv")
    assert len(rows) == 11
    new = [r for r in rows if r.sentence not in before]
    assert [r.sentence for r in new] == ["Pneumothorax is seen."]
    assert all(before[r.sentence] == r.log_likelihood for r in rows if r.sentence in before)


def test_what_is_known_asks_the_network_nothing_and_gives_the_same_bytes(
    score: Score, tmp_path: Path, scored: list[int]
) -> None:
    out = tmp_path / "out.csv"
    score()
    written = out.read_bytes()
    scored.clear()
    summary = score(batch_tokens=7)
    assert scored == []
    assert summary.from_cache == summary.distinct_sentences == 4
    assert out.read_bytes() == written


def test_a_cache_can_lie_elsewhere_and_serve_several_outputs(
    score: Score, tmp_path: Path, scored: list[int]
) -> None:
    cache = tmp_path / "shared" / "cache.db"
    score("a/out.csv", cache=cache)
    second = score("b/out.parquet", cache=cache)
    assert sum(scored) == second.from_cache == 4
    assert [p.name for p in cache.parent.iterdir()] == ["cache.db"]
    for folder in ("a", "b"):
        assert not (tmp_path / folder / "scores.sqlite").exists()
