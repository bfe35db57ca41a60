from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from cxrtext.experiments.data.images import CIFAR10, ImageSet, SplitImages
from cxrtext.experiments.simclr.probes import PROBES, Features, fit_classes


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
    for parameter in plain.parameters():
        torch.nn.init.zeros_(parameter)
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


N, M = 600, 300


def part(count: int, seed: int) -> SplitImages:
    generator = np.random.default_rng(seed)
    return SplitImages(
        np.zeros((count, 1, 1, 1), np.uint8),
        np.arange(count) // 2,
        {
            "class": np.arange(count, dtype=np.int64) % 10,
            "kind": generator.integers(0, 7, count),
            "site": generator.integers(0, 4, count),
            "findings": generator.integers(0, 2, (count, 2)),
            "color": generator.uniform(0, 255, (count, 3)).astype(np.float32),
        },
    )


HELD = ImageSet(part(N, 0), part(M, 1), names=CIFAR10)


def features_of(target: str, noise: float = 0.01) -> Features:
    """Features that hold one target and nothing else."""
    parts = []
    for i, one in enumerate((HELD.train, HELD.test)):
        value = torch.from_numpy(one.targets[target].astype(np.float64))
        coded = value if value.ndim > 1 else torch.nn.functional.one_hot(value.long()).double()
        drawn = torch.randn(coded.shape, generator=torch.Generator().manual_seed(i))
        parts.append((coded + noise * drawn).float())
    train, test = parts
    return Features(train, test, HELD, seed=0, epochs=200, steps=100)


@pytest.mark.parametrize("probe", ["classes", "classes-lbfgs"])
def test_classes(probe: str) -> None:
    found = PROBES[probe](features_of("class"))
    assert found["acc@1"].value == found["acc@5"].value == 100
    assert found["acc@1"].variance == 0
    blind = PROBES[probe](features_of("site"))
    assert blind["acc@1"].value < 25
    assert 35 < blind["acc@5"].value < 65
    assert blind["acc@1"].variance > 0.25


def test_fewer_labels_tell_less_and_thinned_classes_are_a_part() -> None:
    found = PROBES["labels"](features_of("class", noise=0.6))
    few, some = (found[f"accuracy, {share} % of labels"].value for share in (1, 10))
    whole = found["accuracy"].value
    assert 10 < few < some < whole < 90
    thinned = found["accuracy, thinned classes"]
    assert thinned.value != whole
    assert len(thinned.rows) == M // 2


def test_color_error_is_in_squared_grey_values() -> None:
    told = PROBES["digit-color"](features_of("color", noise=5.0))
    assert told["color MSE"].value == pytest.approx(25, rel=0.15)
    blind = PROBES["digit-color"](features_of("class"))
    assert blind["color MSE"].value == pytest.approx(255**2 / 12, rel=0.1)
    assert blind["accuracy"].value == 100


def test_findings_beside_sklearn() -> None:
    features = features_of("findings", noise=1.0)
    found = PROBES["findings-site"](features)
    scaler = StandardScaler().fit(features.train)
    areas = []
    for column in range(2):
        fitted = LogisticRegression(C=100 / N, tol=1e-8, max_iter=2000).fit(
            scaler.transform(features.train), HELD.train.targets["findings"][:, column]
        )
        scores = fitted.decision_function(scaler.transform(features.test))
        areas.append(roc_auc_score(HELD.test.targets["findings"][:, column], scores))
    assert found["AUC"].value == pytest.approx(np.mean(areas), abs=1e-6)
    assert found["AUC"].variance > 0
    assert found["site accuracy"].value < 45


def test_seeds_are_measured_on_the_same_rows() -> None:
    one = features_of("class", noise=0.6)
    first, second = PROBES["classes"](one), PROBES["classes"](replace(one, seed=1))
    assert first["acc@1"].rows == second["acc@1"].rows
