import numpy as np
import pytest

from cxrtext.evaluation import (
    average_precision,
    precision_recall_curve,
    roc_curve,
    youden_threshold,
)
from cxrtext.evaluation.metrics import UNKNOWN_LABEL, settled

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


def test_average_precision_by_hand() -> None:
    # Recall steps of one half at precision 1 and 2/3.
    assert average_precision(SCORES, LABELS) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([1, 1, 1, 1], [1, 0, 0, 0]) == 0.25  # no order: the share of positives
    assert average_precision([1.0], [1]) == 1.0


def test_curves_by_hand() -> None:
    roc = roc_curve(SCORES, LABELS)
    assert roc.thresholds.tolist() == [np.inf, 0.9, 0.8, 0.7, 0.6]
    assert roc.true_positive_rate.tolist() == [0, 0.5, 0.5, 1, 1]
    assert roc.false_positive_rate.tolist() == [0, 0, 0.5, 0.5, 1]
    both = precision_recall_curve(SCORES, LABELS)
    assert both.precision.tolist() == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2])
    assert both.recall.tolist() == [0.5, 0.5, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_curves_agree_with_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    scores, labels = drawn(seed)
    assert average_precision(scores, labels) == pytest.approx(
        metrics.average_precision_score(labels, scores), abs=1e-12
    )
    fpr, tpr, thresholds = metrics.roc_curve(labels, scores, drop_intermediate=False)
    roc = roc_curve(scores, labels)
    np.testing.assert_allclose(roc.false_positive_rate, fpr, atol=1e-12)
    np.testing.assert_allclose(roc.true_positive_rate, tpr, atol=1e-12)
    np.testing.assert_array_equal(roc.thresholds, thresholds)
    precision, recall, thresholds = metrics.precision_recall_curve(labels, scores)
    both = precision_recall_curve(scores, labels)
    # scikit-learn goes from the loosest threshold and adds the point (1, 0).
    np.testing.assert_allclose(both.precision[::-1], precision[:-1], atol=1e-12)
    np.testing.assert_allclose(both.recall[::-1], recall[:-1], atol=1e-12)
    np.testing.assert_array_equal(both.thresholds[::-1], thresholds)


def test_the_area_under_the_points_is_the_area() -> None:
    from cxrtext.evaluation import area_under_curve

    scores, labels = drawn(9)
    roc = roc_curve(scores, labels)
    assert np.trapezoid(roc.true_positive_rate, roc.false_positive_rate) == pytest.approx(
        area_under_curve(scores, labels), abs=1e-12
    )


def test_thresholds_by_hand() -> None:
    assert youden_threshold(SCORES, LABELS) == pytest.approx(0.85)  # the highest of two equal
    assert sensitivity_and_specificity(SCORES, LABELS, 0.85) == (0.5, 1.0)
    assert sensitivity_and_specificity(SCORES, LABELS, 0.65) == (1.0, 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_the_youden_threshold_is_the_best_of_all(seed: int) -> None:
    scores, labels = drawn(seed)

    def gain(threshold: float) -> float:
        return sum(sensitivity_and_specificity(scores, labels, threshold))

    best = max(gain(t) for t in [-np.inf, *scores])
    assert gain(youden_threshold(scores, labels)) == best


def test_a_threshold_stands_between_neighboring_numbers() -> None:
    low = 1.0
    high = float(np.nextafter(low, 2))
    threshold = youden_threshold([low, high], [0, 1])
    assert sensitivity_and_specificity([low, high], [0, 1], threshold) == (1.0, 1.0)
    below_all = youden_threshold([low, high, high], [1, 1, 0])
    assert sensitivity_and_specificity([low, high, high], [1, 1, 0], below_all) == (1.0, 0.0)
    huge = [-1.7e308, 1.7e308]
    assert youden_threshold(huge, [0, 1]) == 0.0


def test_uncertain_labels() -> None:
    labels = np.array([1, 0, -1, UNKNOWN_LABEL], dtype=np.int8)
    expected = {
        "ignore": ([True, True, False, False], [True, False, False, False]),
        "positive": ([True, True, True, False], [True, False, True, False]),
        "negative": ([True, True, True, False], [True, False, False, False]),
    }
    for policy, (known, truth) in expected.items():
        found = settled(labels, policy)  # type: ignore[arg-type]
        assert [side.tolist() for side in found] == [known, truth]
    with pytest.raises(ValueError, match="uncertain must be"):
        settled(labels, "zeros")  # type: ignore[arg-type]


def test_wrong_arguments() -> None:
    for scores, labels, words in [
        ([], [], "not empty"),
        ([1.0], [1, 0], "equally long"),
        ([np.nan, 1], [1, 0], "finite"),
        ([0.0, 1], [1, 2], "1 or 0"),
        ([0.0, 1], [0, 0], "at least one positive"),
    ]:
        with pytest.raises(ValueError, match=words):
            average_precision(scores, labels)
    with pytest.raises(ValueError, match="at least one negative"):
        roc_curve([1.0], [1])
