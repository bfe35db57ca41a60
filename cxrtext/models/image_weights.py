"""Starting an image encoder from a ResNet that was trained elsewhere."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.weight_files import SHOWN, check_finite, listed, misfit, read_tensors

_STEM = "embedder.embedder.convolution.weight"
STEMS = {
    "conv1.weight": "layer1.0.conv1.weight",
    _STEM: "encoder.stages.0.layers.0.layer.0.convolution.weight",
}
"""The first convolution of each layout, and another tensor that the layout always has."""
_TRUNK = re.compile(r"(conv1|bn1|layer\d+|embedder|encoder\.stages)\.")
_BLOCK = re.compile(r"layer(\d+)\.(\d+)\.(conv|bn)(\d)\.(\w+)")
_SHORTCUT = re.compile(r"layer(\d+)\.(\d+)\.downsample\.([01])\.(\w+)")
_PROJECTION = re.compile(r"(?:module\.|model\.)?(?:image_encoder\.)?(projection\..+)")
_COUNTER = "num_batches_tracked"


def load_image_weights(encoder: ImageEncoder, path: Path) -> str:
    """Set an encoder's weights from a file in torchvision's, transformers' or BioViL's layout.

    Either all of the ResNet is loaded or nothing is changed.  Names may have any prefix
    (``module.``, ``encoder.encoder.``) and lie under ``state_dict``, ``model_state_dict`` or
    ``model``.  Classifier heads are left out, and so is BioViL's projector, which has two layers.
    A linear projection is taken where it has the encoder's D, and left as it was otherwise.

    A first convolution of three channels becomes one by summing its weights over the channels.
    That computes what the source computed on three equal channels that were all prepared as this
    encoder's one channel is, so ``mean`` and ``std`` of the model's preprocessing must be the
    source's: 0 and 1 for BioViL, exactly.  For weights from ImageNet, whose channels had means
    .485, .456, .406 and deviations .229, .224, .225, mean .449 and std .226 come near; with others
    the batch normalization's running statistics do not fit until training has renewed them.

    ``path`` is a ``.safetensors`` file, a folder that holds ``model.safetensors``, or a pickle of
    tensors (``.pt``, ``.pth``, ``.bin``), which is read without running what it holds.  What is
    given is a line about what was loaded, and the names of what was not.
    """
    path = path / "model.safetensors" if path.is_dir() else path
    state = read_tensors(path)
    prefix = _prefix(path, state)
    _check_configuration(path, encoder)
    trunk: dict[str, Tensor] = {}
    projection: dict[str, Tensor] = {}
    ignored: list[str] = []
    for name, tensor in state.items():
        within = name.removeprefix(prefix)
        if name.startswith(prefix) and _TRUNK.match(within):
            trunk[name_in_encoder(within)] = tensor
        elif match := _PROJECTION.fullmatch(name):
            # A 1×1 convolution's [D, C, 1, 1] is a linear map's [D, C].
            convolved = tensor.dim() == 4 and tensor.shape[2:] == (1, 1)
            projection[match[1]] = tensor.flatten(1) if convolved else tensor
        else:
            ignored.append(name)
    channels = _sum_channels(path, trunk)
    # Files of before 2018 have no counters, and nothing is computed from them.
    if fault := misfit(trunk, encoder.backbone.state_dict(), lambda name: name.endswith(_COUNTER)):
        raise CheckpointError(
            f"{path}: not the weights of this model's {_title(encoder)}: {fault}; choose weights "
            "of the same architecture, or set model.image to theirs"
        )
    own = {f"projection.{n}": x for n, x in encoder.projection.state_dict().items()}
    unfit = misfit(projection, own)
    values = {**trunk, **({} if unfit else projection)}
    check_finite(path, {n: x for n, x in values.items() if not n.endswith(_COUNTER)})
    encoder.backbone.load_state_dict(trunk, strict=False)
    if not unfit:
        encoder.load_state_dict(projection, strict=False)
    return _summary(encoder, len(trunk), channels, projection, unfit, ignored)


def _prefix(path: Path, state: Mapping[str, Tensor]) -> str:
    """Whatever stands before a ResNet's own names: "", ``module.``, ``encoder.encoder.`` and so on.

    A file may hold several ResNets, a student and a teacher for example; such is refused.
    """
    prefixes = sorted(
        name.removesuffix(stem)
        for name in state
        for stem, other in STEMS.items()
        if name.endswith(stem) and name.removesuffix(stem) + other in state
    )
    if not prefixes:
        raise CheckpointError(
            f"{path}: holds no ResNet: none of its {len(state)} tensors is the first convolution "
            "in torchvision's or transformers' names (conv1.weight with layer1.0.conv1.weight, or "
            "embedder.embedder.convolution.weight)"
        )
    if len(prefixes) > 1:
        raise CheckpointError(
            f"{path}: holds {len(prefixes)} ResNets, under {listed(prefixes)}; save the one that "
            "is wanted alone"
        )
    return prefixes[0]


def _check_configuration(path: Path, encoder: ImageEncoder) -> None:
    """Refuse what tensors do not show: where strides are, in the configuration beside the file."""
    beside = path.with_name("config.json")
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if not isinstance(found, dict) or found.get("model_type") != "resnet":
        return
    ours = encoder.backbone.config
    for key in ("downsample_in_bottleneck", "downsample_in_first_stage", "hidden_act"):
        if key in found and found[key] != getattr(ours, key):
            raise CheckpointError(
                f"{beside}: {key} is {found[key]!r}, and this model's {_title(encoder)} has "
                f"{getattr(ours, key)!r}: the weights would load and compute something else"
            )


def _sum_channels(path: Path, trunk: dict[str, Tensor]) -> int:
    """Bring the first convolution to one channel, in place; return how many it had."""
    stem = trunk[_STEM]
    channels = stem.shape[1] if stem.dim() == 4 else 0
    if channels not in (1, 3):
        raise CheckpointError(
            f"{path}: the first convolution has shape {list(stem.shape)}, not one or three channels"
        )
    trunk[_STEM] = stem.double().sum(dim=1, keepdim=True)
    return channels


def _title(encoder: ImageEncoder) -> str:
    config = encoder.backbone.config
    return f"ResNet of {'-'.join(str(n) for n in config.depths or ())} {config.layer_type} blocks"


def _summary(
    encoder: ImageEncoder,
    loaded: int,
    channels: int,
    projection: Mapping[str, Tensor],
    unfit: str,
    ignored: list[str],
) -> str:
    line = f"{loaded} tensors of a {_title(encoder)}"
    if channels == 3:
        line += ", first convolution summed over three channels"
    if projection:
        line += f"; projection left as it was: {unfit}" if unfit else ", with its projection"
    if ignored:
        line += f"; ignored: {_grouped(ignored)}"
    return line


def _grouped(names: list[str]) -> str:
    """Names, those of a large module together: another encoder may lie in the same file."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(name.split(".")[0], []).append(name)
    return ", ".join(
        ", ".join(group) if len(group) <= SHOWN else f"{module}.* ({len(group)} tensors)"
        for module, group in groups.items()
    )


def name_in_encoder(name: str) -> str:
    """Translate a trunk's name into that of transformers' ResNet; unknown names stay as they are.

    ``layer1.0.conv2.weight`` is ``encoder.stages.0.layers.0.layer.1.convolution.weight``.
    """
    if name == "conv1.weight":
        return _STEM
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
