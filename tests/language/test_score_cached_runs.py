"""What was scored once is not scored again, by whatever run, and nothing is mixed up."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.language import ScoreSettings, score_reports
from cxrtext.language.scoring.cache import ScoreCache, digest_of
from cxrtext.language.scoring.score import Scorer, encode_pieces
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.records import read_sentences


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


class StopError(Exception):
    pass


def test_a_stopped_run_goes_on_without_scoring_anything_twice(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    def stop(done: int, total: int) -> None:
        assert total == 4
        if done >= 2:
            raise StopError

    whole, out = tmp_path / "whole.csv", tmp_path / "stopped.csv"
    score_reports(reports, whole, ScoreSettings(cache=False, batch_tokens=8), model=tiny)
    assert sum(scored) == 4
    scored.clear()
    with pytest.raises(StopError):
        score_reports(
            reports, out, ScoreSettings(cache=False, batch_tokens=8), model=tiny, progress=stop
        )
    assert not out.exists()
    assert sum(scored) == 2
    assert (tmp_path / "stopped.csv.partial").stat().st_mode & 0o777 == 0o600
    summary = score_reports(reports, out, ScoreSettings(cache=False, batch_tokens=8), model=tiny)
    assert sum(scored) == 4
    assert (summary.resumed, summary.from_cache) == (2, 0)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.glob("stopped*")) == [
        "stopped.csv",
        "stopped.csv.meta.json",
    ]


def test_a_grown_corpus_costs_its_new_sentences_only(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    out = tmp_path / "out.csv"
    score_reports(reports, out, model=tiny)
    assert sum(scored) == 4
    scored.clear()
    before = {r.sentence: r.log_likelihood for r in read_sentences(out)}
    with reports.open("a") as handle:
        handle.write("s7,Heart size is normal. Pneumothorax is seen.,The lungs are clear.,\n")
    summary = score_reports(reports, out, model=tiny)
    assert sum(scored) == 1
    assert (summary.from_cache, summary.resumed, summary.distinct_sentences) == (4, 0, 5)
    rows = read_sentences(out)
    assert len(rows) == 11
    new = [r for r in rows if r.sentence not in before]
    assert [r.sentence for r in new] == ["Pneumothorax is seen."]
    assert all(before[r.sentence] == r.log_likelihood for r in rows if r.sentence in before)


def test_what_is_known_asks_the_network_nothing_and_gives_the_same_bytes(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    out, tokens = tmp_path / "out.csv", tmp_path / "tokens.csv"
    score_reports(reports, out, ScoreSettings(tokens=tokens), model=tiny)
    written = out.read_bytes(), tokens.read_bytes()
    scored.clear()
    summary = score_reports(reports, out, ScoreSettings(tokens=tokens, batch_tokens=7), model=tiny)
    assert scored == []
    assert summary.from_cache == summary.distinct_sentences == 4
    assert (out.read_bytes(), tokens.read_bytes()) == written


def test_other_models_and_precisions_have_scores_of_their_own(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    other = MaskedLanguageModel(tiny.model, tiny.tokenizer, "other", "0" * 64)
    out = tmp_path / "out.csv"

    def run(model: MaskedLanguageModel, **options: str) -> tuple[int, int]:
        scored.clear()
        summary = score_reports(reports, out, ScoreSettings(**options), model=model)  # type: ignore[arg-type]
        return sum(scored), summary.from_cache

    assert run(tiny) == (4, 0)
    assert run(other) == (4, 0)
    assert run(tiny, precision="bfloat16") == (4, 0)
    assert run(tiny, precision="bfloat16") == (0, 4)
    assert run(tiny) == (0, 4)


def test_without_a_cache_no_file_is_made(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    folder = tmp_path / "out"
    for _ in range(2):
        score_reports(reports, folder / "out.csv", ScoreSettings(cache=False), model=tiny)
    assert sum(scored) == 8
    assert sorted(p.name for p in folder.iterdir()) == ["out.csv", "out.csv.meta.json"]


def test_a_cache_can_lie_elsewhere_and_serve_several_outputs(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    cache = tmp_path / "shared" / "cache.db"
    score_reports(reports, tmp_path / "a" / "out.csv", ScoreSettings(cache=cache), model=tiny)
    second = score_reports(
        reports, tmp_path / "b" / "out.parquet", ScoreSettings(cache=cache), model=tiny
    )
    assert sum(scored) == second.from_cache == 4
    assert [p.name for p in cache.parent.iterdir()] == ["cache.db"]
    for folder in ("a", "b"):
        assert not (tmp_path / folder / "scores.sqlite").exists()


def test_a_stopped_run_leaves_its_scores_to_others(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path, scored: list[int]
) -> None:
    def stop(done: int, total: int) -> None:
        raise StopError

    cache = tmp_path / "cache.db"
    with pytest.raises(StopError):
        score_reports(
            reports,
            tmp_path / "a.csv",
            ScoreSettings(cache=cache, batch_tokens=8),
            model=tiny,
            progress=stop,
        )
    done = sum(scored)
    assert 0 < done < 4
    assert (
        score_reports(
            reports, tmp_path / "b.csv", ScoreSettings(cache=cache), model=tiny
        ).from_cache
        == done
    )


def test_a_score_in_the_cache_is_what_is_written(
    tiny: MaskedLanguageModel, reports: Path, tmp_path: Path
) -> None:
    (pieces,) = encode_pieces(tiny.tokenizer, ["No pneumothorax."])
    with ScoreCache(tmp_path / "scores.sqlite", Scorer(tiny).identity) as cache:
        values = np.linspace(-2, -1, len(pieces), dtype=np.float32)
        cache.add({digest_of(pieces): values})
    score_reports(reports, tmp_path / "out.csv", model=tiny)
    rows = [r for r in read_sentences(tmp_path / "out.csv") if r.sentence == "No pneumothorax."]
    assert [r.log_likelihood for r in rows] == [float(values.sum(dtype=np.float64))] * 3
