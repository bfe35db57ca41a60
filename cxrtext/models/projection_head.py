"""The head of an encoder that learns from views; it is no part of what the encoder becomes."""

from torch import Tensor, nn


class ProjectionHead(nn.Module):
    """Linear maps with ReLU between them; the caller brings what it gives to unit length.

    ``sizes`` are of each linear map, the last D; with ``norm`` a batch norm stands before each
    ReLU, as in the CCL-K paper's heads.
    """

    def __init__(self, features: int, sizes: tuple[int, ...], *, norm: bool = False) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"a head needs one size or more, each at least 1, not {sizes}")
        layers: list[nn.Module] = []
        before = features
        for size in sizes[:-1]:
            layers.append(nn.Linear(before, size, bias=not norm))
            layers.extend([nn.BatchNorm1d(size)] if norm else [])
            layers.append(nn.ReLU(True))
            before = size
        self.layers = nn.Sequential(*layers, nn.Linear(before, sizes[-1]))

    def forward(self, features: Tensor) -> Tensor:
        """Project features, [B, F] -> [B, D]."""
        projected: Tensor = self.layers(features)
        return projected
