from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation.retrieval.sentences import (
    gather_wording,
)
from cxrtext.metrics.ranking import embedding_ranks, positive_ranks
from cxrtext.records import ImageRecord, Sentence


def same(first: list[str], second: list[str]) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = np.array(first)[:, None] == np.array(second)
    return equal


def test_a_sentence_is_right_for_every_image_of_its_study() -> None:
    owners = [("a", "one"), ("a", "one"), ("b", "one"), ("c", "two"), ("d", "three")]
    records = [
        ImageRecord(Path(f"{i}.png"), f"{i}.png", study, patient, "test")
        for i, (study, patient) in enumerate(owners)
    ]
    said = [Sentence(study, "findings", 0, "Clear.") for study in ("a", "c", "x")]
    wording = gather_wording(SimpleNamespace(records=records), said)  # type: ignore[arg-type]
    assert (wording.texts, wording.patients) == (["Clear."], ["one"])
    assert wording.images == {0: [0, 1, 3]}


@pytest.mark.parametrize("seed", range(3))
def test_ranks_of_embeddings_equal_those_of_their_scores(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(seed)
    sentences = [f"s{number}" for number in generator.integers(0, 25, 40)]
    queries, candidates = generator.integers(-2, 3, (2, 40, 3)).astype(np.float64)
    scores = queries @ candidates.T
    monkeypatch.setattr("cxrtext.metrics.ranking.SCORES_AT_ONCE", 280)
    assert embedding_ranks(queries, candidates).tolist() == positive_ranks(scores).tolist()
    found = embedding_ranks(queries, candidates, keys=sentences)
    expected = positive_ranks(scores, same(sentences, sentences))
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
