from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation.retrieval.sentences import (
    DIRECTIONS,
    Queries,
    SentenceRanks,
    gather_wording,
    measure_retrieval,
)
from cxrtext.evaluation.rows import RETRIEVAL
from cxrtext.metrics.ranking import (
    embedding_ranks,
    positive_ranks,
    rank_metrics,
    retrieval_metrics,
)
from cxrtext.records import ImageRecord, Sentence

Floats = NDArray[np.float64]


def drawn(seed: int, n: int = 40) -> tuple[Floats, list[str], list[str]]:
    """Scores with ties, sentences some of which are equal, and patients."""
    generator = np.random.default_rng(seed)
    sentences = [f"s{number}" for number in generator.integers(0, 25, n)]
    patients = [f"p{number}" for number in generator.integers(0, 15, n)]
    return np.round(generator.normal(size=(n, n)), 1), sentences, patients


def same(first: list[str], second: list[str]) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = np.array(first)[:, None] == np.array(second)
    return equal


def test_a_recall_among_all_candidates_is_not_told() -> None:
    queries = {
        name: Queries(list("abcde"), list("vwxyz"), np.arange(1, 6), candidates)
        for name, candidates in zip(DIRECTIONS, (5, 6), strict=True)
    }
    found = measure_retrieval(SentenceRanks(queries))
    first, second = (found.of(RETRIEVAL, direction) for direction in DIRECTIONS)
    assert "R@5" not in first  # it is 1 whatever the model says
    assert second["R@5"] == 1
    own = (row for row in found if row.group == DIRECTIONS[0] and row.ends)
    assert {row.measure for row in own} == {"R@1", "MedR", "MRR"}


def test_a_sentence_is_right_for_its_study_and_not_wrong_for_others_of_the_patient() -> None:
    owners = [("a", "one"), ("a", "one"), ("b", "one"), ("c", "two"), ("d", "three")]
    records = [
        ImageRecord(Path(f"{i}.png"), f"{i}.png", study, patient, "test")
        for i, (study, patient) in enumerate(owners)
    ]
    said = [Sentence(study, "findings", 0, "Clear.") for study in ("a", "c", "x")]
    wording = gather_wording(SimpleNamespace(records=records), said)  # type: ignore[arg-type]
    assert (wording.texts, wording.patients) == (["Clear."], ["one"])
    assert wording.images == {0: [0, 1, 3]}
    assert wording.related == {0: [0, 1, 2, 3]}


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_rows_equal_the_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, sentences, patients = drawn(seed)
    right, apart = same(sentences, sentences), same(patients, patients)
    expected = [
        1 + ((row >= row[good].max()) & ~good & ~out).sum()
        for row, good, out in zip(scores, right, apart, strict=True)
    ]
    assert positive_ranks(scores, right, apart).tolist() == expected
    diagonal = positive_ranks(scores)
    monkeypatch.setattr("cxrtext.metrics.ranking.SCORES_AT_ONCE", 120)  # three rows
    assert positive_ranks(scores, right, apart).tolist() == expected
    assert positive_ranks(scores).tolist() == diagonal.tolist()
    assert positive_ranks(scores.astype(np.float32)).tolist() == diagonal.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_ranks_of_embeddings_equal_those_of_their_scores(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sentences, patients = drawn(seed)
    generator = np.random.default_rng(seed)
    queries, candidates = generator.integers(-2, 3, (2, 40, 3)).astype(np.float64)
    scores = queries @ candidates.T
    monkeypatch.setattr("cxrtext.metrics.ranking.SCORES_AT_ONCE", 280)
    assert embedding_ranks(queries, candidates).tolist() == positive_ranks(scores).tolist()
    found = embedding_ranks(queries, candidates, keys=sentences, groups=patients)
    expected = positive_ranks(scores, same(sentences, sentences), same(patients, patients))
    assert found.tolist() == expected.tolist()


def test_both_directions_by_hand() -> None:
    scores = np.array([[0.9, 0.8, 0.1], [0.9, 0.2, 0.3], [0.1, 0.1, 0.1]])
    # Down the rows: 1, 3 and, all being equal, 3. Down the columns: 2 by a
    # tie, 2, and 3 by one that is higher and a tie.
    assert positive_ranks(scores).tolist() == [1, 3, 3]
    assert positive_ranks(scores.T).tolist() == [2, 2, 3]
    # Sentences 0 and 1 are equal, so their scores are; the ties count against it where they are
    # wrong answers.
    scores = np.array([[0.2, 0.7, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    right = same(["a", "a", "b"], ["a", "a", "b"])
    assert positive_ranks(scores).tolist() == [2, 1, 1]
    assert positive_ranks(scores.T).tolist() == [2, 2, 1]
    assert positive_ranks(scores, right).tolist() == [1, 1, 1]
    assert positive_ranks(scores.T, right).tolist() == [1, 1, 1]
    assert positive_ranks(scores, None, right).tolist() == [1, 1, 1]  # those of the patient apart


def test_metrics_of_ranks() -> None:
    assert rank_metrics([1, 2, 4, 200]) == {
        "R@1": 0.25, "R@5": 0.75, "R@10": 0.75, "R@50": 0.75, "R@100": 0.75,
        "MedR": 3.0, "MRR": pytest.approx((1 + 0.5 + 0.25 + 0.005) / 4),
    }  # fmt: skip
    scores, sentences, _ = drawn(5)
    right = same(sentences, sentences)
    assert retrieval_metrics(scores, right) == rank_metrics(positive_ranks(scores, right))


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="left_out must be"):
        positive_ranks([[1.0, 2.0]], None, [[True]])
    with pytest.raises(ValueError, match="from 1"):
        rank_metrics([0])
    with pytest.raises(ValueError, match="equally many"):
        embedding_ranks([[1.0]], [[1.0]], groups=["a", "b"])
