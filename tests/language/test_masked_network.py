"""Masked copies, products of matrices, and the network that reads them, packed and plain."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cxrtext.language.scoring.linear import (
    POINTWISE,
    PackedLinear,
    PlainLinear,
    can_pack,
    make_linear,
)
from cxrtext.language.scoring.network import (
    MaskedCopies,
    MaskedNetwork,
    masked_copies,
)
from cxrtext.models.bert import ACTIVATIONS
from tests.grids import grid
from tests.language.conftest import (
    SPECIAL,
    WINDOW,
    PlainCopy,
    copies_by_loops,
    network_scores,
    plain_scores,
    random_model,
)


def some_ids(count: int, length: int, vocabulary: int = 60) -> torch.Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(5, vocabulary, (count, length), generator=generator)


@pytest.mark.parametrize(
    ("shape", "length"),
    [
        *(({"num_hidden_layers": layers}, length) for layers in (1, 2, 3) for length in (1, 7, 19)),
        *(({"hidden_act": activation}, 9) for activation in ACTIVATIONS),
        *(
            ({"num_attention_heads": n, "width": width}, 8)
            for n, width in ((1, 32), (3, 21), (5, 40), (7, 7))
        ),
    ],
    ids=str,
)
def test_it_equals_the_plain_network(shape: dict[str, Any], length: int) -> None:
    model = random_model(**shape)
    ids = some_ids(3, length)
    found = network_scores(MaskedNetwork(model, torch.float32), ids)
    for values, sentence in zip(found, ids.tolist(), strict=True):
        expected = plain_scores(model, sentence, WINDOW)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)


def test_scoring_leaves_the_model_as_it_was() -> None:
    model = random_model()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    network_scores(MaskedNetwork(model, torch.float32), some_ids(2, 5))
    for name, values in model.state_dict().items():
        assert torch.equal(values, before[name]), name
    assert all(values.requires_grad for values in model.parameters())


def written_out(copies: MaskedCopies) -> list[PlainCopy]:
    """Each copy as the network reads it, with the column and the piece asked for."""
    texts = copies.base[copies.owner].masked_fill(copies.masked, SPECIAL.mask)
    return list(zip(texts.tolist(), copies.position.tolist(), copies.target.tolist(), strict=True))


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Sentences of one length, and a window."""
    length = draw(st.integers(1, 12))
    count = draw(st.integers(1, 4))
    row = st.lists(st.integers(5, 50), min_size=length, max_size=length)
    total = count * length
    start = draw(st.integers(0, total - 1))
    return {
        "ids": draw(st.lists(row, min_size=count, max_size=count)),
        "window": draw(st.integers(1, 15)),
        "rows": range(start, draw(st.integers(start + 1, total))),
    }


@settings(max_examples=300, deadline=None)
@given(case=cases())
def test_it_equals_plain_loops(case: dict[str, Any]) -> None:
    ids, window, rows = case["ids"], case["window"], case["rows"]
    found = masked_copies(torch.tensor(ids), rows, window, SPECIAL)
    expected = [copy for sentence in ids for copy in copies_by_loops(sentence, window)]
    assert written_out(found) == expected[rows.start : rows.stop]


DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.05}
"""Results are about 1 in size, and bfloat16 keeps 8 bits."""


def random_product(rows: int = 9) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Input [M, 48], weight [20, 48] and bias [20]; rows of results spread about 1."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(20, 48, generator=generator) / 7
    bias = torch.randn(20, generator=generator)
    return torch.randn(rows, 48, generator=generator), weight, bias


def packed(dtype: torch.dtype) -> PackedLinear:
    # By the processor and not by ``can_pack``, which says no if the products are wrong as well.
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("no bfloat16 on this processor")
    _, weight, bias = random_product()
    return PackedLinear(weight, bias, dtype)


def test_plain_by_the_formulas() -> None:
    x, weight, bias = random_product()
    linear_map = PlainLinear(weight, bias, torch.float32)
    y = x @ weight.T + bias
    cubic = 0.7978845608 * (y + 0.044715 * y**3)
    expected: dict[str, torch.Tensor] = {
        "none": y,
        "gelu": y * torch.special.ndtr(y),
        "gelu_new": 0.5 * y * (1 + torch.tanh(cubic)),
        "relu": y.clamp(min=0),
        "silu": y / (1 + torch.exp(-y)),
    }
    for activation, values in expected.items():
        torch.testing.assert_close(linear_map(x, activation), values, rtol=1e-5, atol=1e-5)


@grid(1, dtype=list(DTYPES), activation=list(POINTWISE), rows=[9, 1, 1500])
def test_packed_equals_plain(rows: int, activation: str, dtype: torch.dtype) -> None:
    x, weight, bias = random_product(rows)
    found = packed(dtype)(x.to(dtype), activation)
    expected = PlainLinear(weight, bias, torch.float32)(x, activation)
    assert found.dtype == dtype
    assert (found.float() - expected).abs().max() < TOLERANCE[dtype]


def test_packing_is_refused_where_it_cannot_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    _, weight, bias = random_product()

    with monkeypatch.context() as patch:
        gone = Mock(side_effect=AttributeError("no such operator"))
        patch.setattr(PackedLinear, "__init__", gone)
        assert not can_pack(torch.float32)
        assert isinstance(make_linear(weight, bias, torch.float32), PlainLinear)
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        assert not can_pack(torch.float32)
