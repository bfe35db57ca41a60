"""Names of a ResNet's tensors as torchvision, transformers and BioViL write them."""

import re
from collections.abc import Iterable

STEMS = {
    "conv1.weight": "layer1.0.conv1.weight",
    "embedder.embedder.convolution.weight": "encoder.stages.0.layers.0.layer.0.convolution.weight",
}
"""The first convolution of each layout, and another tensor that the layout always has."""

_TRUNK = re.compile(r"(conv1|bn1|layer\d+|embedder|encoder\.stages)\.")
_BLOCK = re.compile(r"layer(\d+)\.(\d+)\.(conv|bn)(\d)\.(\w+)")
_SHORTCUT = re.compile(r"layer(\d+)\.(\d+)\.downsample\.([01])\.(\w+)")
_BIOVIL_PROJECTOR = re.compile(r"(?:module\.|model\.)?projector\.model\.(\d)\.(.+)")
_BIOVIL_LAYERS = {"0": "hidden.0", "1": "hidden.1", "3": "projection"}  # 2 is the ReLU
_PROJECTION = re.compile(r"(?:module\.|model\.)?(?:image_encoder\.)?((?:hidden|projection)\..+)")


def prefixes_of_trunks(names: Iterable[str]) -> list[str]:
    """Whatever stands before a ResNet's own names: "", ``module.``, ``encoder.encoder.`` and so on.

    A file may hold several ResNets, a student and a teacher for example.
    """
    known = set(names)
    return sorted(
        name.removesuffix(stem)
        for name in known
        for stem, other in STEMS.items()
        if name.endswith(stem) and name.removesuffix(stem) + other in known
    )


def belongs_to_trunk(name: str) -> bool:
    """Whether a name, without its prefix, is one of the ResNet itself: no head and no projector."""
    return _TRUNK.match(name) is not None


def name_in_encoder(name: str) -> str:
    """Translate a trunk's name into that of transformers' ResNet; unknown names stay as they are.

    Args:
        name: Without its prefix, for example ``layer1.0.conv2.weight``.

    Returns:
        For example ``encoder.stages.0.layers.0.layer.1.convolution.weight``.
    """
    if name == "conv1.weight":
        return "embedder.embedder.convolution.weight"
    if name.startswith("bn1."):
        return f"embedder.embedder.normalization.{name.removeprefix('bn1.')}"
    if match := _BLOCK.fullmatch(name):
        stage, block, kind, number, field = match.groups()
        part = f"layer.{int(number) - 1}.{'convolution' if kind == 'conv' else 'normalization'}"
    elif match := _SHORTCUT.fullmatch(name):
        stage, block, number, field = match.groups()
        part = f"shortcut.{'convolution' if number == '0' else 'normalization'}"
    else:
        return name
    return f"encoder.stages.{int(stage) - 1}.layers.{block}.{part}.{field}"


def name_in_projection(name: str) -> str | None:
    """The name in ``ImageEncoder`` of a tensor of the map to D dimensions; None of any other.

    Args:
        name: The whole name: ``projector.model.3.weight`` as BioViL writes it, for example, or
            ``projection.weight`` as this program does.
    """
    if match := _BIOVIL_PROJECTOR.fullmatch(name):
        layer, field = match.groups()
        return f"{_BIOVIL_LAYERS.get(layer, layer)}.{field}"
    match = _PROJECTION.fullmatch(name)
    return match[1] if match else None
