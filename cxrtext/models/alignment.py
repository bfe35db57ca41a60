"""Layers in which the regions of an image look at each other, over features that stay as they are.

Source: RadZero (Park et al. 2025), which trains transformer layers on top of a frozen encoder of
radiographs.
"""

from torch import Tensor, nn

MAX_LAYERS = 2
HEAD_WIDTH = 64
"""Dimensions of one attention head."""


class Alignment(nn.Module):
    """Transformer layers over regions; each starts as the identity."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        heads = max(n for n in range(1, max(1, width // HEAD_WIDTH) + 1) if width % n == 0)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                heads,
                dim_feedforward=2 * width,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )
        for layer in self.layers:
            # What a new layer adds is zero, so that a model begins at its backbone's own features.
            for last in (layer.self_attn.out_proj, layer.linear2):  # type: ignore[union-attr]
                nn.init.zeros_(last.weight)  # type: ignore[union-attr, arg-type]
                nn.init.zeros_(last.bias)  # type: ignore[union-attr, arg-type]

    def forward(self, features: Tensor) -> Tensor:
        """Regions [B, h, w, C] of images, each having looked at the others: [B, h, w, C]."""
        regions = features.flatten(1, 2)
        for layer in self.layers:
            regions = layer(regions)
        return regions.view_as(features)


def build_alignment(layers: int, width: int) -> Alignment | None:
    """Make so many layers; none of 0."""
    if not 0 <= layers <= MAX_LAYERS:
        raise ValueError(f"alignment layers are 0 to {MAX_LAYERS}, not {layers}")
    return Alignment(layers, width) if layers else None
