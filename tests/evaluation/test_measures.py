import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation import area_under_curve, retrieval_metrics
from cxrtext.evaluation.retrieval.sentences import positive_ranks


def test_area_by_hand() -> None:
    assert area_under_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    assert area_under_curve([1, 1, 1], [0, 1, 1]) == 0.5
    assert area_under_curve([3, 2, 1], [0, 1, 1]) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_area_agrees_with_scikit_learn(seed: int) -> None:
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, 300)
    scores = np.round(generator.normal(labels * 0.5), 1)  # many ties
    assert area_under_curve(scores, labels) == pytest.approx(roc_auc_score(labels, scores))


@pytest.mark.parametrize(
    ("scores", "labels"),
    [([1.0], [1]), ([1.0, 2.0], [1]), ([1.0, np.nan], [0, 1]), ([1.0, 2.0], [1, 2])],
)
def test_area_of_wrong_arguments(scores: list[float], labels: list[int]) -> None:
    with pytest.raises(ValueError, match="."):
        area_under_curve(scores, labels)


def test_the_area_counts_ties_as_half() -> None:
    assert area_under_curve([0.0, 0.0, 1.0], [0, 1, 1]) == pytest.approx(3 / 4)


def loop_rank(scores: list[float], right: list[bool]) -> int:
    best = max(s for s, r in zip(scores, right, strict=True) if r)
    return 1 + sum(s >= best for s, r in zip(scores, right, strict=True) if not r)


def test_ranks_equal_the_loop() -> None:
    generator = np.random.default_rng(0)
    scores = np.round(generator.normal(size=(40, 30)), 1)
    right = generator.random((40, 30)) < 0.1
    right[:, 3] = True
    expected = [loop_rank(s, r) for s, r in zip(scores.tolist(), right.tolist(), strict=True)]
    assert positive_ranks(scores, right).tolist() == expected


def test_ties_count_against_the_model() -> None:
    same: NDArray[np.float64] = np.zeros((3, 3))
    assert retrieval_metrics(same, cutoffs=[1, 3]) == {
        "R@1": 0.0,
        "R@3": 1.0,
        "MedR": 3.0,
        "MRR": pytest.approx(1 / 3),
    }


def test_retrieval_by_hand() -> None:
    scores = [[0.9, 0.1, 0.0], [0.8, 0.3, 0.1], [0.5, 0.4, 0.3]]  # ranks 1, 2, 3
    metrics = retrieval_metrics(scores, cutoffs=[1, 2])
    assert metrics["R@1"] == pytest.approx(1 / 3)
    assert metrics["R@2"] == pytest.approx(2 / 3)
    assert metrics["MedR"] == 2.0
    assert metrics["MRR"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_retrieval_of_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="NaN"):
        retrieval_metrics([[np.nan]])
    with pytest.raises(ValueError, match="right answer"):
        retrieval_metrics([[1.0, 2.0]], [[False, False]])
    with pytest.raises(ValueError, match="relevant must be"):
        retrieval_metrics([[1.0, 2.0]], [[True]])
