from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from cxrtext.evaluation.classification.linear_probe import Probe, linear_probe
from cxrtext.metrics.ranking import area_under_curve

Floats = NDArray[np.float64]


def fit_probe(features: Any, labels: Any, ridge: float) -> Probe:
    return linear_probe(features, labels, features, labels, [ridge])


def drawn(seed: int, n: int = 200, width: int = 6) -> tuple[Floats, NDArray[np.int64]]:
    """Features of very different sizes, the first two of which tell the label."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    features = generator.normal(size=(n, width))
    features[:, :2] += labels[:, None]
    return features * 10.0 ** np.arange(-3, width - 3) + 5, labels


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


def test_features_without_content_weigh_nothing_and_separable_classes_have_a_best_fit() -> None:
    features, labels = drawn(1)
    features[:, 4] = 0.1
    probe = fit_probe(features, labels, 0.1)
    assert probe.weights[4] == 0
    assert np.isfinite(probe.logits(features)).all()
    separable = fit_probe([[0.0], [1.0]], [0, 1], 1e-4)
    assert np.isfinite(separable.weights).all()
    assert separable.logits([[0.0]])[0] < 0 < separable.logits([[1.0]])[0]


def test_the_ridge_is_chosen_on_validation() -> None:
    features, labels = drawn(2, 40, 30)  # many features and few rows: little ridge overfits
    seen, truth = drawn(3, 400, 30)
    probe = linear_probe(features, labels, seen, truth, [1e6, 0.3, 1e-6])
    assert probe.ridge == 0.3
    assert area_under_curve(probe.logits(seen), truth) > 0.7
