import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from cxrtext.experiments.simclr.probes import fit_classes


def problem(count: int = 240, classes: int = 7, size: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (count,), generator=generator)
    centers = torch.randn(classes, size, generator=generator)
    features = centers[labels] + torch.randn(count, size, generator=generator)
    return features * torch.linspace(0.1, 30, size) + 5, labels


@pytest.mark.parametrize("ridge", [1e-3, 0.1])
def test_lbfgs_against_scikit_learn(ridge: float) -> None:
    features, labels = problem()
    scaled = StandardScaler().fit_transform(features.double())
    peer = LogisticRegression(C=1 / (ridge * len(labels)), tol=1e-10, max_iter=5000)
    peer.fit(scaled, labels.numpy())
    probe = fit_classes(features, labels, ridge=ridge)
    found = torch.softmax(probe(features), dim=1).numpy()
    assert np.abs(found - peer.predict_proba(scaled)).max() < 1e-4
    right = probe(features).argmax(dim=1) == labels
    assert float(right.double().mean()) == pytest.approx(peer.score(scaled, labels.numpy()))


def test_adam_comes_near_lbfgs_and_can_be_repeated() -> None:
    features, labels = problem()
    probe = fit_classes(features, labels, solver="adam", lr=0.02, epochs=150, batch=64)
    again = fit_classes(features, labels, solver="adam", lr=0.02, epochs=150, batch=64)
    best = fit_classes(features, labels, ridge=0.0)
    assert torch.equal(probe.weights, again.weights)
    losses = [float(torch.nn.functional.cross_entropy(p(features), labels)) for p in (probe, best)]
    assert losses[1] < losses[0] < losses[1] + 0.02


def test_the_first_step_of_adam_against_autograd() -> None:
    features, labels = problem(64)
    ours = fit_classes(features, labels, 7, solver="adam", lr=0.1, epochs=1, batch=64)
    design = torch.from_numpy(StandardScaler().fit_transform(features.double())).float()
    plain = torch.nn.Linear(9, 7)
    torch.nn.init.zeros_(plain.weight)
    torch.nn.init.zeros_(plain.bias)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.1)
    torch.nn.functional.cross_entropy(plain(design), labels).backward()
    optimizer.step()
    assert torch.allclose(ours(features), plain(design), atol=1e-3)


def test_few_labels_are_standardised_by_all() -> None:
    features, labels = problem()
    rows = torch.arange(14)
    scaled = torch.from_numpy(StandardScaler().fit_transform(features.double()))
    found = fit_classes(features[rows], labels[rows], 7, reference=features)
    wanted = fit_classes(scaled[rows], labels[rows], 7, reference=scaled)
    own = fit_classes(features[rows], labels[rows], 7)
    assert torch.allclose(found(features), wanted(scaled), atol=1e-3)
    assert not torch.allclose(found(features), own(features), atol=0.1)


def test_a_constant_feature_changes_nothing() -> None:
    features, labels = problem()
    padded = torch.cat([features, torch.full((len(features), 1), 0.3)], dim=1)
    one, other = fit_classes(features, labels), fit_classes(padded, labels)
    assert torch.allclose(one(features), other(padded), atol=1e-6)
