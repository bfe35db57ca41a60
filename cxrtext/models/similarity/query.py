"""Query maps of the non-local bags."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

QueryName = Literal["linear", "mlp", "none"]
QUERIES: tuple[str, ...] = get_args(QueryName)
"""The names that :func:`build_query` knows."""


class LinearQuery(nn.Linear):
    """``q = W r``, which starts as a multiple of r.

    ``sharpness`` is what ``⟨q_n, q_c⟩ / √D`` is at first for equal regions.  With q = r it is
    ``1 / √D``, so that every bag is close to the mean region.
    """

    def __init__(self, dimension: int, sharpness: float) -> None:
        super().__init__(dimension, dimension, bias=False)
        with torch.no_grad():
            nn.init.eye_(self.weight).mul_(math.sqrt(sharpness * math.sqrt(dimension)))


class MlpQuery(nn.Module):
    """``q = tanh(W₂ relu(W₁ r))``, the query map of dual-stream MIL (Li et al. 2021)."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.first = nn.Linear(dimension, dimension)
        self.second = nn.Linear(dimension, dimension)

    def forward(self, regions: Tensor) -> Tensor:
        """Map regions [..., D] to queries [..., D], each entry in [−1, 1]."""
        return torch.tanh(self.second(torch.relu(self.first(regions))))


def build_query(name: str, dimension: int, sharpness: float | None = None) -> nn.Module | None:
    """Make the query map of a name, of regions [..., D] to queries [..., D].

    "none" is q = r; a ``sharpness`` of None starts "linear" there.
    """
    match name:
        case "linear":
            return LinearQuery(
                dimension, 1 / math.sqrt(dimension) if sharpness is None else sharpness
            )
        case "mlp":
            return MlpQuery(dimension)
        case "none":
            return None
    raise ValueError(f"no query map '{name}'; there are {', '.join(QUERIES)}")
