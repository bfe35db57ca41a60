"""The network for masked copies, against transformers' own in float64."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import BertForMaskedLM

from cxrtext.language.scoring import linear
from cxrtext.language.scoring.linear import PlainLinear
from cxrtext.language.scoring.network import (
    ACTIVATIONS,
    MaskedNetwork,
    PlainFeedForward,
    SpecialIds,
    make_network,
    masked_copies,
)

Models = Callable[..., BertForMaskedLM]
PlainScores = Callable[..., NDArray[np.float64]]

WINDOW = 12


def some_ids(count: int, length: int, vocabulary: int = 60) -> torch.Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(5, vocabulary, (count, length), generator=generator)


def scores(network: MaskedNetwork, ids: torch.Tensor, special: SpecialIds) -> NDArray[np.float32]:
    copies = masked_copies(ids, range(ids.numel()), WINDOW, special)
    values: NDArray[np.float32] = network.log_probabilities(copies, special.mask).numpy()
    return values.reshape(ids.shape)


@pytest.mark.parametrize("length", [1, 7, 19])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_equals_the_plain_network(
    layers: int,
    length: int,
    random_model: Models,
    plain_scores: PlainScores,
    special: SpecialIds,
) -> None:
    model = random_model(layers=layers)
    ids = some_ids(3, length)
    found = scores(make_network(model, torch.float32), ids, special)
    for values, sentence in zip(found, ids.tolist(), strict=True):
        expected = plain_scores(model, sentence, WINDOW)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation(
    activation: str, random_model: Models, plain_scores: PlainScores, special: SpecialIds
) -> None:
    model = random_model(activation=activation)
    ids = some_ids(1, 9)
    found = scores(make_network(model, torch.float32), ids, special)
    expected = plain_scores(model, ids[0].tolist(), WINDOW)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("heads", "width"), [(1, 32), (3, 21), (5, 40), (7, 7)])
def test_any_number_of_heads(
    heads: int, width: int, random_model: Models, plain_scores: PlainScores, special: SpecialIds
) -> None:
    model = random_model(heads=heads, width=width)
    ids = some_ids(1, 8)
    found = scores(make_network(model, torch.float32), ids, special)
    expected = plain_scores(model, ids[0].tolist(), WINDOW)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [6, 17])
def test_the_score_does_not_depend_on_the_company(
    length: int, random_model: Models, special: SpecialIds
) -> None:
    network = make_network(random_model(), torch.float32)
    ids = some_ids(40, length)
    alone = np.concatenate([scores(network, row[None], special) for row in ids])
    np.testing.assert_allclose(scores(network, ids, special), alone, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("length", [6, 17])
@pytest.mark.parametrize("size", [1, 5, 64])
def test_the_size_of_a_pass_changes_nothing(
    size: int, length: int, random_model: Models, special: SpecialIds
) -> None:
    network = make_network(random_model(), torch.float32)
    ids = some_ids(6, length)
    parts = [
        network.log_probabilities(
            masked_copies(ids, range(start, min(start + size, ids.numel())), WINDOW, special),
            special.mask,
        )
        for start in range(0, ids.numel(), size)
    ]
    found = torch.cat(parts).numpy().reshape(ids.shape)
    np.testing.assert_allclose(found, scores(network, ids, special), rtol=1e-6, atol=2e-6)


class Counted:
    """A product, or a layer's half, that notes how many rows it was given."""

    def __init__(self, inner: Any, name: str, seen: list[tuple[str, int]]) -> None:
        self.inner, self.name, self.seen = inner, name, seen

    def __call__(self, x: torch.Tensor, *rest: Any) -> Any:
        self.seen.append((self.name, len(x)))
        return self.inner(x, *rest)

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> Any:
        self.seen.append((self.name, len(x)))
        return self.inner.add_to(residual, x)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_no_more_rows_are_computed_than_the_answer_needs(
    layers: int, random_model: Models, special: SpecialIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = make_network(random_model(layers=layers), torch.float32)
    expected = scores(network, some_ids(2, 5), special)
    S, T, R = 2, 7, 10
    seen: list[tuple[str, int]] = []
    counted = []
    for number, layer in enumerate(network.layers):
        parts: dict[str, Any] = {
            part: Counted(getattr(layer, part), f"{number} {part}", seen)
            for part in ("qkv", "query", "key_value", "mix", "feed")
        }
        counted.append(dataclasses.replace(layer, **parts))
    monkeypatch.setattr(network, "layers", counted)
    for part in ("transform", "decode"):
        monkeypatch.setattr(network, part, Counted(getattr(network, part), part, seen))
    np.testing.assert_array_equal(scores(network, some_ids(2, 5), special), expected)
    middle = [("1 qkv", R * T), ("1 mix", R * T), ("1 feed", R * T)] if layers == 3 else []
    last = layers - 1
    first = R if last == 0 else R * T
    ends = [(f"{last} key_value", R * T), (f"{last} query", R)]
    ends += [(f"{last} mix", R), (f"{last} feed", R)]
    assert seen == [
        ("0 qkv", S * T + T),
        ("0 mix", first),
        ("0 feed", first),
        *middle,
        *(ends if last else []),
        ("transform", R),
        ("decode", R),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_without_packed_weights_the_scores_are_the_same(
    dtype: torch.dtype, random_model: Models, special: SpecialIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ids = random_model(), some_ids(4, 6)
    packed = scores(make_network(model, dtype), ids, special)
    monkeypatch.setattr(linear, "can_pack", lambda _: False)
    network = make_network(model, dtype)
    feed = network.layers[0].feed
    assert isinstance(feed, PlainFeedForward)
    assert {type(feed.widen), type(network.decode)} == {PlainLinear}
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    np.testing.assert_allclose(scores(network, ids, special), packed, rtol=0, atol=tolerance)


def test_scoring_leaves_the_model_as_it_was(random_model: Models, special: SpecialIds) -> None:
    model = random_model()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    scores(make_network(model, torch.float32), some_ids(2, 5), special)
    for name, values in model.state_dict().items():
        assert torch.equal(values, before[name]), name
    assert all(values.requires_grad for values in model.parameters())
