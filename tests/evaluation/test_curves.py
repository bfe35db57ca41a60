import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cxrtext.evaluation.classification.multiclass import only_class, precision_at
from cxrtext.metrics.ranking import (
    UNKNOWN_LABEL,
    area_under_curve,
    retrieval_metrics,
    settled,
    youden_threshold,
)

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
SCORES, LABELS = [0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0]


def sensitivity_and_specificity(
    scores: Floats | list[float], labels: list[int], threshold: float
) -> tuple[float, float]:
    above, truth = np.asarray(scores) > threshold, np.asarray(labels) == 1
    return float(above[truth].mean()), float((~above)[~truth].mean())


def drawn(seed: int) -> tuple[Floats, list[int]]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, 200)
    return np.round(generator.normal(labels * 0.7), 1), labels.tolist()  # many ties


def test_thresholds_by_hand() -> None:
    assert youden_threshold(SCORES, LABELS) == pytest.approx(0.85)  # the highest of two equal
    assert sensitivity_and_specificity(SCORES, LABELS, 0.85) == (0.5, 1.0)
    assert sensitivity_and_specificity(SCORES, LABELS, 0.65) == (1.0, 0.5)


def test_a_threshold_stands_between_neighboring_numbers() -> None:
    low, high = 1.0, float(np.nextafter(1.0, 2))
    threshold = youden_threshold([low, high], [0, 1])
    assert sensitivity_and_specificity([low, high], [0, 1], threshold) == (1.0, 1.0)
    below_all = youden_threshold([low, high, high], [1, 1, 0])
    assert sensitivity_and_specificity([low, high, high], [1, 1, 0], below_all) == (1.0, 0.0)
    assert youden_threshold([-1.7e308, 1.7e308], [0, 1]) == 0.0


def test_uncertain_labels() -> None:
    labels = np.array([1, 0, -1, UNKNOWN_LABEL], dtype=np.int8)
    for policy, known, truth in (
        ("ignore", [1, 1, 0, 0], [1, 0, 0, 0]),
        ("positive", [1, 1, 1, 0], [1, 0, 1, 0]),
        ("negative", [1, 1, 1, 0], [1, 0, 0, 0]),
    ):
        found = settled(labels, policy)  # type: ignore[arg-type]
        assert [side.tolist() for side in found] == [known, truth]
    with pytest.raises(ValueError, match="uncertain must be"):
        settled(labels, "zeros")  # type: ignore[arg-type]


def test_ties_count_against_the_model() -> None:
    found = retrieval_metrics(np.zeros((3, 3)), cutoffs=[1, 3])
    assert found == {"R@1": 0.0, "R@3": 1.0, "MedR": 3.0, "MRR": pytest.approx(1 / 3)}


def test_images_of_exactly_one_class() -> None:
    labels = [[1, 1, 0, 1, 1, 0], [0, 1, 0, -1, UNKNOWN_LABEL, 1], [0, 0, 0, 0, 0, 0]]
    assert only_class(labels).tolist() == [0, -1, -1, -1, 0, 1]


def test_precision_by_hand() -> None:
    scores, right = [0.9, 0.8, 0.7, 0.1], [True, False, True, True]
    assert [precision_at(scores, right, k) for k in (1, 2, 3, 4)] == [1, 1 / 2, 2 / 3, 3 / 4]
    # Three tie for the second place, of which two are right.
    assert precision_at([0.9, 0.5, 0.5, 0.5], [False, True, True, False], 2) == pytest.approx(1 / 3)


@pytest.mark.parametrize("seed", range(3))
def test_measures_agree_with_scikit_learn(seed: int) -> None:
    scores, labels = drawn(seed)
    assert area_under_curve(scores, labels) == pytest.approx(roc_auc_score(labels, scores))
