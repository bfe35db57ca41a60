from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from cxrtext.experiments.probes import PROBES, Features, fit_adam
from cxrtext.experiments.small_sets import Images, ImageSet


def test_adam_comes_near_the_best_and_its_first_step_is_autograd_s() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (237,), generator=generator)
    features = torch.randn(10, 9, generator=generator)[labels]
    features += 2 * torch.randn(237, 9, generator=generator)

    def fitted(epochs: int, lr: float, batch: int) -> Tensor:
        return fit_adam(features, labels, epochs, torch.Generator().manual_seed(1), lr, batch)

    def loss(weights: Tensor) -> float:
        logits = features @ weights[:-1] + weights[-1]
        return float(torch.nn.functional.cross_entropy(logits, labels))

    assert torch.equal(fitted(3, 0.02, 64), fitted(3, 0.02, 64))
    peer = LogisticRegression(C=1e6, max_iter=5000).fit(features.numpy(), labels.numpy())
    best = torch.from_numpy(np.vstack([peer.coef_.T, peer.intercept_])).float()
    assert loss(best) < loss(fitted(200, 0.02, 64)) < loss(best) + 0.05
    plain = torch.nn.Linear(9, 10)
    for parameter in plain.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.1)
    torch.nn.functional.cross_entropy(plain(features), labels).backward()
    optimizer.step()
    weights = fitted(1, 0.1, 237)
    assert torch.allclose(features @ weights[:-1] + weights[-1], plain(features), atol=1e-3)


N, M = 600, 300


def part(count: int, seed: int) -> Images:
    colors = np.random.default_rng(seed).uniform(0, 255, (count, 3)).astype(np.float32)
    return Images(np.zeros((count, 1, 1, 1), np.uint8), np.arange(count) % 10, colors)


DATA = ImageSet(part(N, 0), part(M, 1), np.zeros((N, 1), np.float32), True)


def features_of(target: str, noise: float = 0.01, scale: float = 1.0) -> Features:
    """Features that hold one target and nothing else."""
    parts = []
    for i, one in enumerate((DATA.train, DATA.test)):
        value = np.asarray(getattr(one, target)) if target else np.zeros((len(one.labels), 3))
        coded = torch.from_numpy(np.eye(10)[value] if value.ndim == 1 else value)
        drawn = torch.randn(coded.shape, generator=torch.Generator().manual_seed(i))
        parts.append((scale * (coded + noise * drawn)).float())
    train, test = parts
    return Features(train, test, DATA, epochs=200, steps=100)


@pytest.mark.parametrize("probe", ["classes", "classes-lbfgs"])
def test_classes(probe: str) -> None:
    found = PROBES[probe](features_of("labels"))
    assert found["acc@1"].value == found["acc@5"].value == 100
    assert found["acc@1"].interval() == (100, 100)
    blind = PROBES[probe](features_of("", noise=1.0))
    assert blind["acc@1"].value < 25
    assert 35 < blind["acc@5"].value < 65
    assert blind["acc@1"].variance > 0.5**2
    # The height of features, and one that is the same everywhere, change nothing.
    one, other = features_of("labels", noise=0.6), features_of("labels", noise=0.6, scale=30.0)
    padded = [torch.cat([f, torch.full((len(f), 1), 0.3)], dim=1) for f in (one.train, one.test)]
    wider = replace(one, train=padded[0], test=padded[1])
    first, *others = (PROBES[probe](f)["acc@1"].value for f in (one, other, wider))
    assert others == pytest.approx([first, first], abs=0.5)


def test_fewer_labels_tell_less_and_thinned_classes_are_a_part() -> None:
    found = PROBES["labels"](features_of("labels", noise=0.6))
    few, some = (found[f"accuracy, {share} % of labels"].value for share in (1, 10))
    whole = found["accuracy"].value
    assert 10 < few < some < whole < 90
    thinned = found["accuracy, thinned classes"]
    assert thinned.value != whole
    assert thinned.degrees == pytest.approx(M // 2 - 1)
    assert thinned.rows != found["accuracy"].rows


def test_color_error_is_in_squared_grey_values() -> None:
    told = PROBES["digit-color"](features_of("colors", noise=5.0))
    assert told["color MSE"].value == pytest.approx(25, rel=0.15)
    blind = PROBES["digit-color"](features_of("labels"))
    assert blind["color MSE"].value == pytest.approx(255**2 / 12, rel=0.1)
    assert blind["accuracy"].value == 100
