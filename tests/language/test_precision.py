"""Which arithmetic can be had, and what a scorer says of itself."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cxrtext.errors import ConfigError
from cxrtext.language.scoring.network import MaskedNetwork
from cxrtext.language.scoring.score import Scorer
from cxrtext.models.bert import MaskedBert
from cxrtext.models.masked_lm import MaskedLanguageModel
from tests.language.conftest import network_scores, random_model

IDS = torch.randint(5, 60, (30, 6), generator=torch.Generator().manual_seed(0))


def scores(model: MaskedBert, kind: Any, ids: torch.Tensor = IDS) -> NDArray[np.float32]:
    return network_scores(MaskedNetwork(model, getattr(torch, kind)), ids)


@pytest.mark.parametrize("name", ["float64", "", "int8"])
def test_an_unknown_name_is_refused_with_the_known_ones_and_float16_on_a_cpu(
    tiny: MaskedLanguageModel, name: Any
) -> None:
    known = "float32, bfloat16, float16"
    with pytest.raises(ConfigError, match=f"^precision '{name}' is not one of {known}$"):
        Scorer(tiny, name)
    with pytest.raises(ConfigError, match="float16 is only for GPUs; use bfloat16 on a CPU"):
        Scorer(tiny, "float16")


def test_bfloat16_is_near_float32() -> None:
    model = random_model()
    exact, fast = scores(model, "float32"), scores(model, "bfloat16")
    assert 0 < np.abs(fast - exact).mean() < 0.03
    assert np.abs(fast - exact).max() < 0.2
    assert fast.dtype == np.float32


def test_in_bfloat16_the_company_matters_no_more_than_rounding_does() -> None:
    # oneDNN chooses its kernel by the number of rows, and sums in another order.
    model = random_model()
    exact, together = scores(model, "float32"), scores(model, "bfloat16")
    alone = np.concatenate([scores(model, "bfloat16", row[None]) for row in IDS])
    assert np.abs(alone - together).max() <= np.abs(together - exact).max()
    assert np.abs(alone - together).mean() <= np.abs(together - exact).mean() / 2
