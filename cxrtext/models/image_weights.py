"""Starts an image encoder from a ResNet trained elsewhere, with that ResNet's preprocessing."""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cxrtext.errors import CheckpointError
from cxrtext.images import Preprocessing
from cxrtext.models.folders import CONFIG, SAFE_WEIGHTS, read_object
from cxrtext.models.foreign.golden import draw
from cxrtext.models.foreign.names import of_torchvision_resnet, only_prefix
from cxrtext.models.foreign.processor import Prepared, read_processor
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.regions import normalized
from cxrtext.models.resnet import ResNet
from cxrtext.models.weight_files import (
    check_finite,
    is_counter,
    listed,
    misfit,
    read_notes,
    read_tensors,
)

_STEM = "embedder.embedder.convolution.weight"
_STEM_MEAN = "embedder.embedder.normalization.running_mean"
_STEM_NAME = re.compile(
    r"((?:(?!layer\d)\w+\.)*?)(?:conv1|embedder\.embedder\.convolution)\.weight"
)
_TRUNK = re.compile(r"(conv1|bn1|layer\d+|embedder|encoder\.stages)\.")
_BIOVIL = "projector.model.0.weight"  # its gray values are neither shifted nor scaled
LIKENESS = 0.98
"""Least correlation of features with the source's own, on a drawn image."""
DRAWN = 224  # side of the drawn image, in pixels
AT_ONCE = 32
NORM_IMAGES = 256  # training images that set the batch norms


@dataclass(frozen=True, slots=True)
class ImageStart:
    """The weights that an encoder was started from."""

    line: str  # what was loaded and what was ignored
    preprocessing: Preprocessing  # the source's, with levels for one channel
    is_own: bool  # whether `pretrain-image` wrote them, so batch norms fit radiographs already

    def prepared(self, resize: int, crop: int) -> Preprocessing:
        """The source's preprocessing at another size."""
        return replace(self.preprocessing, resize=resize, crop=crop)


def load_image_weights(encoder: ImageEncoder, path: Path) -> ImageStart:
    """Set the weights of an encoder's ResNet from a file with torchvision's or transformers' names.

    Either the whole ResNet is loaded or nothing changes.  Names may have any prefix (``module.``,
    ``encoder.encoder.``) and be under ``state_dict``, ``model_state_dict`` or ``model``.  Heads,
    projections and BioViL's projector are ignored.

    The notes of a ``pretrain-image`` file, or ``preprocessor_config.json`` beside the weights, say
    how the source's pixels were scaled and resized; BioViL's preprocessing is known.  Three
    channels become one by summing the first convolution over them, with each channel's deviation;
    the means go into the batch norm after it.  Features of a drawn image must then be nearly those
    of the original weights (CheckpointError).  If the channels' means differ, features differ at
    the border, because the source pads with black of three different levels.

    ``path`` is a ``.safetensors`` file, a folder with ``model.safetensors``, or a pickle of tensors
    (``.pt``, ``.pth``, ``.bin``), which is read without running code in it.
    """
    path = path / SAFE_WEIGHTS if path.is_dir() else path
    state = read_tensors(path)
    prefix = only_prefix(path, state, _STEM_NAME, "ResNets in torchvision's or transformers' names")
    _check_configuration(path, encoder)
    within = {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
    source = of_torchvision_resnet({n: x for n, x in within.items() if _TRUNK.match(n)})
    left = [name for name in state if not _TRUNK.match(name.removeprefix(prefix))]
    stem = source[_STEM]
    channels = stem.shape[1] if stem.dim() == 4 else 0
    if channels not in (1, 3):
        raise CheckpointError(
            f"{path}: the first convolution has shape {list(stem.shape)}, not one or three channels"
        )
    notes = read_notes(path)
    prepared = _prepared(path, notes, channels, is_biovil=_BIOVIL in state)
    own = encoder.backbone.state_dict()
    if fault := misfit({**source, _STEM: stem[:, :1]}, own):
        raise CheckpointError(f"{path}: is not a {_title(encoder)}: {fault}")
    check_finite(path, {n: x for n, x in source.items() if not is_counter(n)})
    is_own = "preprocessing" in notes
    one_channel = source, prepared.preprocessing
    started, preprocessing = one_channel if is_own else _of_one_channel(source, prepared)
    trial = deepcopy(encoder.backbone)
    trial.load_state_dict(started, strict=False)
    if channels > 1:
        _check_likeness(path, source, prepared, trial, preprocessing)
    encoder.backbone.load_state_dict(started, strict=False)
    line = f"{len(source)} tensors of a {_title(encoder)}"
    line += ", first convolution summed over three channels" if channels == 3 else ""
    line += f"; ignored: {listed(left)}" if left else ""
    return ImageStart(line, preprocessing, is_own)


def _prepared(path: Path, notes: Mapping[str, Any], channels: int, *, is_biovil: bool) -> Prepared:
    """How the source's images were prepared."""
    if "preprocessing" in notes:
        own = Preprocessing.from_dict(notes["preprocessing"])
        return Prepared(own, (own.mean,) * channels, (own.std,) * channels)
    if is_biovil:
        return Prepared(Preprocessing(mean=0.0, std=1.0), (0.0,) * channels, (1.0,) * channels)
    return read_processor(path.parent, "ConvNextImageProcessor", channels)


def _of_one_channel(
    source: Mapping[str, Tensor], prepared: Prepared
) -> tuple[dict[str, Tensor], Preprocessing]:
    """Tensors for one channel that compute what the source does on equal channels, and its levels.

    Deviations go into the first convolution: for images from 0 to 255, its weights are so small
    that a step of AdamW would overwrite them.
    """
    stem = source[_STEM].double()
    mean = sum(prepared.mean) / len(prepared.mean)
    scales = stem.new_tensor([1 / std for std in prepared.std])
    shifts = stem.new_tensor([mean - at for at in prepared.mean]) * scales
    made = {
        **source,
        _STEM: torch.einsum("ochw,c->ohw", stem, scales)[:, None],
        _STEM_MEAN: source[_STEM_MEAN].double() - torch.einsum("ochw,c->o", stem, shifts),
    }
    return made, replace(prepared.preprocessing, mean=mean, std=1.0)


@torch.inference_mode()
def _check_likeness(
    path: Path,
    source: Mapping[str, Tensor],
    prepared: Prepared,
    network: ResNet,
    preprocessing: Preprocessing,
) -> None:
    """Compare a drawn image's features with those of the source's network (CheckpointError)."""
    config = replace(network.config, num_channels=len(prepared.mean))
    with torch.random.fork_rng(devices=[]):
        theirs = ResNet(config).eval()
    theirs.load_state_dict(dict(source), strict=False)
    small = replace(preprocessing, resize=DRAWN, crop=DRAWN)
    gray = torch.from_numpy(small.square(draw()))[None].float() / 255
    mean, std = (torch.tensor(some).view(1, -1, 1, 1) for some in (prepared.mean, prepared.std))
    wanted = theirs((gray - mean) / std).last_hidden_state.flatten()
    own = (gray - preprocessing.mean) / preprocessing.std
    features = network.eval()(own).last_hidden_state.flatten()
    likeness = float(torch.corrcoef(torch.stack([features, wanted]).double())[0, 1])
    if not likeness >= LIKENESS:
        raise CheckpointError(
            f"{path}: features of a drawn image correlate with the source's own by "
            f"{likeness:.3f}, less than {LIKENESS}; the weights are damaged"
        )


def sample_images(
    pixels: Any, rows: NDArray[np.int64], preprocessing: Preprocessing, device: torch.device
) -> Iterator[Tensor]:
    """Up to :data:`NORM_IMAGES` evenly chosen images for :func:`set_norms`, [b, 1, crop, crop].

    ``pixels`` are 8-bit squares [slots, R, R], ``rows`` has the slot of each training image.
    """
    chosen = rows[np.linspace(0, len(rows), min(NORM_IMAGES, len(rows)), endpoint=False, dtype=int)]
    for some in np.array_split(chosen, -(-len(chosen) // AT_ONCE)):
        squares = torch.from_numpy(np.asarray(pixels[some])[:, None])
        yield normalized(squares.to(device), preprocessing)


@torch.no_grad()
def set_norms(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Set a network's batch norms from images [b, 1, H, W], so that its features stay the same.

    The statistics become those of these images, and weight and bias make up for the difference: in
    evaluation mode nothing changes, and in training mode, with batch statistics, features are
    nearly the same.  Otherwise the first step would change the features of weights with folded
    norms, or from other pictures.
    """
    norms: list[Any] = [one for one in network.modules() if isinstance(one, nn.BatchNorm2d)]
    sums = {norm: torch.zeros(3, norm.num_features, dtype=torch.float64) for norm in norms}

    def count(norm: Any, given: tuple[Tensor, ...]) -> None:
        x = given[0].double()
        every = (0, 2, 3)
        numbers = torch.full((x.shape[1],), x.numel() / x.shape[1])
        sums[norm] += torch.stack([numbers, x.sum(every).cpu(), x.square().sum(every).cpu()])

    hooks = [norm.register_forward_pre_hook(count) for norm in norms]
    was_training = network.training
    network.eval()
    for images in batches:
        network(images)
    network.train(was_training)
    for hook in hooks:
        hook.remove()
    for norm, (numbers, total, squares) in sums.items():
        mean = total / numbers
        variance = (squares / numbers - mean.square()).clamp_min(0)
        scale = norm.weight.cpu().double() / (norm.running_var.cpu().double() + norm.eps).sqrt()
        shift = norm.bias.cpu().double() + scale * (mean - norm.running_mean.cpu().double())
        norm.weight.copy_(scale * (variance + norm.eps).sqrt())
        norm.bias.copy_(shift)
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)


def _check_configuration(path: Path, encoder: ImageEncoder) -> None:
    """Refuse a configuration beside the file that differs in strides, which tensors do not show."""
    beside = path.with_name(CONFIG)
    theirs = read_object(beside) if beside.exists() else {}
    if theirs.get("model_type") != "resnet":
        return
    ours = encoder.backbone.config
    for key in ("downsample_in_bottleneck", "downsample_in_first_stage", "hidden_act"):
        if key in theirs and theirs[key] != getattr(ours, key):
            raise CheckpointError(
                f"{beside}: {key} is {theirs[key]!r}, and this model's {_title(encoder)} has "
                f"{getattr(ours, key)!r}: the weights would load and compute something else"
            )


def _title(encoder: ImageEncoder) -> str:
    config = encoder.backbone.config
    return f"ResNet of {'-'.join(str(n) for n in config.depths)} {config.layer_type} blocks"
