"""Findings as classes: accuracy and precision of the first K, by hand and by scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as sklearn_matrix

from cxrtext.evaluation.classification.multiclass import (
    class_precision,
    confusion_matrix,
    multiclass_accuracy,
    only_class,
    precision_at,
)
from cxrtext.evaluation.intervals.proportions import wilson_interval

UNKNOWN = -2


def test_images_of_exactly_one_class() -> None:
    labels = [[1, 1, 0, 1, 1, 0], [0, 1, 0, -1, UNKNOWN, 1], [0, 0, 0, 0, 0, 0]]
    assert only_class(labels).tolist() == [0, -1, -1, -1, 0, 1]
    with pytest.raises(ValueError, match="findings, images"):
        only_class([1, 0])


def test_accuracy_by_hand() -> None:
    scores = [[0.9, 0.2, 0.5, 0.1], [0.1, 0.8, 0.5, 0.2], [0.0, 0.1, 0.4, 0.9]]
    classes = [0, 1, 1, 2]  # the third is a tie, which the first finding wins
    found = multiclass_accuracy(scores, classes)
    assert found.value == 0.75
    assert (found.low, found.high) == wilson_interval(0.75, 4)
    assert confusion_matrix(scores, classes).tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert multiclass_accuracy(scores, classes, ["a", "a", "b", "c"]).value == 0.75


def test_the_matrix_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    scores, classes = rng.random((5, 300)), rng.integers(0, 5, 300)
    expected = sklearn_matrix(classes, scores.argmax(axis=0), labels=range(5))
    assert (confusion_matrix(scores, classes) == expected).all()


def test_precision_by_hand() -> None:
    scores, right = [0.9, 0.8, 0.7, 0.1], [True, False, True, True]
    assert [precision_at(scores, right, k) for k in (1, 2, 3, 4)] == [1, 1 / 2, 2 / 3, 3 / 4]
    # Three tie for the second place, of which two are right.
    assert precision_at([0.9, 0.5, 0.5, 0.5], [False, True, True, False], 2) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="k = 5"):
        precision_at(scores, right, 5)


def test_ties_count_what_a_random_order_gives() -> None:
    rng = np.random.default_rng(1)
    scores, right = rng.integers(0, 4, 30).astype(float), rng.random(30) < 0.4
    orders = [np.lexsort((rng.random(30), -scores))[:7] for _ in range(4000)]
    mean = np.mean([right[order].mean() for order in orders])
    assert precision_at(scores, right, 7) == pytest.approx(mean, abs=0.01)


def test_precision_of_classes() -> None:
    scores = [[0.9, 0.8, 0.1, 0.2, 0.0, 0.3], [0.1, 0.5, 0.9, 0.8, 0.7, 0.2]]
    found = class_precision(scores, [0, 1, 1, 0, 1, 0], cutoffs=(2, 3, 100))
    assert list(found) == ["P@2", "P@3"]
    assert found["P@2"].tolist() == [0.5, 0.5]
    assert found["P@3"].tolist() == pytest.approx([2 / 3, 2 / 3])
    with pytest.raises(ValueError, match="classes must be 0 to 1"):
        class_precision(scores, [0, 1, 1, 0, 1, 2])
