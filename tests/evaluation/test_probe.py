import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from cxrtext.evaluation import (
    area_under_curve,
    fit_probe,
    linear_probe,
)
from cxrtext.evaluation.probes.linear_probe import few_label_logits, few_label_rows

Floats = NDArray[np.float64]


def drawn(seed: int, n: int = 200, width: int = 6) -> tuple[Floats, NDArray[np.int64]]:
    """Features of very different sizes, the first two of which tell the label."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    features = generator.normal(size=(n, width))
    features[:, :2] += labels[:, None]
    return features * 10.0 ** np.arange(-3, width - 3) + 5, labels


def test_a_probe_by_hand() -> None:
    # One feature of ±1, three quarters right: the slope of the loss is p − 3/4 + ridge · w = 0.
    features = [[1.0]] * 4 + [[-1.0]] * 4
    labels = [1, 1, 1, 0, 0, 0, 0, 1]
    ridge = 0.1
    probe = fit_probe(features, labels, ridge)
    weight = probe.weights[0]
    assert 1 / (1 + math.exp(-weight)) - 3 / 4 + ridge * weight == pytest.approx(0, abs=1e-7)
    assert probe.bias == pytest.approx(0, abs=1e-7)
    nearly = fit_probe(features, labels, 1e-9)
    assert nearly.weights[0] == pytest.approx(math.log(3), abs=1e-6)


def test_a_probe_agrees_with_scikit_learn() -> None:
    features, labels = drawn(0)
    ridge = 0.05
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    peer = LogisticRegression(C=1 / (ridge * 200), tol=1e-10, max_iter=10_000)
    peer.fit(scaled, labels)
    probe = fit_probe(features, labels, ridge)
    np.testing.assert_allclose(
        probe.logits(features), peer.decision_function(scaled), rtol=1e-5, atol=1e-6
    )


def test_features_without_content_weigh_nothing() -> None:
    features, labels = drawn(1)
    features[:, 4] = 0.1
    probe = fit_probe(features, labels, 0.1)
    assert probe.weights[4] == 0
    assert np.isfinite(probe.logits(features)).all()


def test_separable_classes_have_a_best_fit() -> None:
    probe = fit_probe([[0.0], [1.0]], [0, 1], 1e-4)
    assert np.isfinite(probe.weights).all()
    assert probe.logits([[0.0]])[0] < 0 < probe.logits([[1.0]])[0]


def test_the_ridge_is_chosen_on_validation() -> None:
    features, labels = drawn(2, 40, 30)  # many features and few rows: little ridge overfits
    seen, truth = drawn(3, 400, 30)
    probe = linear_probe(features, labels, seen, truth, [1e-6, 0.3, 1e6])
    assert probe.ridge == 0.3
    assert area_under_curve(probe.logits(seen), truth) > 0.7
    with pytest.raises(ValueError, match="at least one ridge"):
        linear_probe(features, labels, seen, truth, [])


def test_rows_with_few_labels() -> None:
    labels = np.array([1] * 5 + [0] * 20)
    rows = few_label_rows(labels, 3, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 6
    assert labels[rows].sum() == 3
    assert rows.tolist() == few_label_rows(labels, 3, np.random.default_rng(0)).tolist()
    with pytest.raises(ValueError, match="6 positives are wanted, of which there are 5"):
        few_label_rows(labels, 6, np.random.default_rng(0))


def test_more_labels_help() -> None:
    sets = [drawn(seed, n) for seed, n in ((4, 300), (5, 100), (6, 400))]
    train, validation, (test, truth) = sets

    def aucs(*shots: int) -> dict[int, list[float]]:
        found = few_label_logits(train, validation, test, shots=shots, seeds=range(3))
        return {n: [area_under_curve(one, truth) for one in some] for n, some in found.items()}

    found = aucs(1, 10, 100, 1000)
    assert [len(found[shots]) for shots in (1, 10, 100, 1000)] == [3, 3, 3, 0]
    assert np.mean(found[1]) < np.mean(found[100])
    assert found[1] == aucs(1)[1]


def test_wrong_arguments() -> None:
    wrong: list[tuple[list[Any], list[int], float, str]] = [
        ([1.0], [1], 1.0, r"\[n, D\]"),
        ([[np.nan], [1.0]], [0, 1], 1.0, "finite"),
        ([[0.0], [1.0]], [1, 1], 1.0, "both must occur"),
        ([[0.0], [1.0]], [0, 1], 0.0, "ridge must"),
    ]
    for features, labels, ridge, words in wrong:
        with pytest.raises(ValueError, match=words):
            fit_probe(features, labels, ridge)
