"""A frozen vision model from elsewhere: from gray squares to regions; found by its digest."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cxrtext.device import has_bfloat16
from cxrtext.errors import CheckpointError, ConfigError
from cxrtext.files import open_regular
from cxrtext.images.preprocessing import MAX_RESIZE, Preprocessing
from cxrtext.models.configurations import settings_of
from cxrtext.models.features.feature_map import FeatureMap
from cxrtext.models.folders import BACKBONE_FOLDER, BACKBONES_VARIABLE, CARDS, CONFIG, foreign
from cxrtext.models.foreign.network import load_network, offset_of, read_vision, stride_of
from cxrtext.models.foreign.processor import DEFAULTS, Prepared, read_processor
from cxrtext.models.image_encoder import RegionEncoder

Precision = Literal["float32", "bfloat16"]
_LINE = 200  # most characters of a licence
_CARD = 2**16  # most bytes read from a card
_LICENCE = re.compile(r"^license(?:_name|_link)?:(.+)$", re.MULTILINE)


class Backbone(nn.Module):
    """A vision model of :data:`~cxrtext.models.foreign.network.BACKBONES`; :func:`load_backbone`.

    Its weights take no gradient, and it stays in evaluation mode.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, folder: Path, prepared: Prepared) -> None:
        super().__init__()
        self.model_type, config = read_vision(folder)
        self.model, tensors = load_network(folder, config)
        self.name = folder.name
        self.folder = folder
        self.licence = licence_of(folder)  # a line, or "" if the folder names none
        self.precision: Precision = "float32"
        own, size = prepared.preprocessing, prepared.preprocessing.crop
        self.preprocessing: Preprocessing = replace(own, offset=offset_of(config))
        self.grid = (size // stride_of(config),) * 2  # h, w
        self.digest = _digest(config, prepared, tensors)
        takes = inspect.signature(self.model.forward).parameters
        asked = "interpolate_pos_encoding" in takes and size != config.image_size
        self._call = {"interpolate_pos_encoding": True} if asked else {}
        names = ("hidden_sizes", "hidden_dim", "hidden_size")
        width = next(value for name in names if (value := getattr(config, name, None)))
        self.channels = int(width[-1] if isinstance(width, list | tuple) else width)
        self._levels = (prepared.mean, prepared.std)
        shape = (1, len(prepared.mean), 1, 1)
        self.register_buffer("mean", torch.tensor(prepared.mean).view(shape), persistent=False)
        self.register_buffer("std", torch.tensor(prepared.std).view(shape), persistent=False)
        self.requires_grad_(requires_grad=False)
        self.eval()

    def train(self, mode: bool = True) -> Self:  # noqa: ARG002 - nn.Module's signature
        return super().train(mode=False)

    def forward(self, images: Tensor, *, precision: Precision | None = None) -> Tensor:
        """Regions [B, h, w, C] of images [B, 1, crop, crop] in [0, 1], in float32.

        They are transformers' ``last_hidden_state`` without the class and register tokens.
        ``precision`` is for this call; None uses that of :func:`load_backbone`.
        """
        side = self.preprocessing.crop
        if images.shape[1:] != (1, side, side):
            raise ValueError(
                f"images of {self.name} are [B, 1, {side}, {side}], not {list(images.shape)}"
            )
        pixels = (images.float() - self.mean) / self.std  # gray, repeated in each channel
        half = (precision or self.precision) == "bfloat16"
        with torch.autocast(images.device.type, torch.bfloat16, enabled=half):
            state: Tensor = self.model(pixel_values=pixels, **self._call).last_hidden_state
        if state.ndim == 4:
            regions = state.permute(0, 2, 3, 1)
        else:  # class and register tokens come before the regions
            h, w = self.grid
            regions = state[:, -h * w :].reshape(len(state), h, w, self.channels)
        return regions.float().contiguous()

    def note(self) -> dict[str, Any]:
        """The note for features and checkpoints, as JSON."""
        return {
            "model_type": self.model_type,
            "name": self.name,
            "folder": str(self.folder.absolute()),
            "digest": self.digest,
            "licence": self.licence,
            "channels": self.channels,
            "grid": list(self.grid),
            "size": self.preprocessing.crop,
            "preprocessing": self.preprocessing.to_dict(),
            "channel_mean": list(self._levels[0]),
            "channel_std": list(self._levels[1]),
        }


def load_backbone(
    folder: Path,
    *,
    size: int | None = None,
    device: str | torch.device = "cpu",
    precision: Precision = "float32",
) -> Backbone:
    """Load a vision model from a folder saved by transformers; nothing is fetched.

    The folder has ``config.json``, ``model.safetensors`` (or ``pytorch_model.bin``, read without
    running code in it) and ``preprocessor_config.json``.  Heads and text towers are ignored;
    anything else that does not fit is refused.

    Attention uses torch's ``scaled_dot_product_attention``, transformers' default: equal to the
    plain formula except for rounding, with memory that grows with the number of regions, not with
    its square.

    Args:
        size: Side of the crop in pixels, instead of the folder's own; the resize keeps its ratio.
        precision: "bfloat16" computes under autocast, on devices that support it
            (:func:`cxrtext.device.has_bfloat16`).
    """
    folder = Path(folder)
    if precision not in get_args(Precision):
        raise ConfigError(f"precision: {precision!r} is not float32 or bfloat16")
    if precision == "bfloat16" and not has_bfloat16(torch.device(device)):
        raise ConfigError(
            f"precision: this {'GPU' if torch.device(device).type == 'cuda' else 'processor'} has "
            "no units for bfloat16 and would be slower with it; take float32"
        )
    with foreign(folder):
        backbone = Backbone(folder, prepared_of(folder, size)).to(device)
    backbone.precision = precision
    return backbone


def prepared_of(folder: Path, size: int | None = None) -> Prepared:
    """The preprocessing of a folder's model, at its own size or another, without its weights."""
    _, config = read_vision(folder)
    if size is not None and not 1 <= size <= MAX_RESIZE:
        raise CheckpointError(f"{folder.name}: size {size} is not between 1 and {MAX_RESIZE} px")
    prepared = read_processor(folder, DEFAULTS[config.model_type], config.num_channels).at(size)
    crop, stride = prepared.preprocessing.crop, stride_of(config)
    if crop % stride:
        below, above = crop // stride * stride, (crop // stride + 1) * stride
        nearest = f"{below} or {above}" if below else str(above)
        raise CheckpointError(
            f"{folder.name}: {crop} px is not a multiple of {stride}, the pixels of a region of "
            f"its {config.model_type}, which would leave out a margin; take --size {nearest}"
        )
    return prepared


def licence_of(folder: Path) -> str:
    """The licence named by a model's card or LICENSE file, as a line, or ""."""
    readers: Sequence[Callable[[str], list[str]]] = (_front_matter, str.splitlines)
    for pattern, read in zip(CARDS, readers, strict=True):
        for path in sorted(folder.glob(pattern)):
            try:
                with open_regular(path) as card:
                    named = read(card.read(_CARD).decode("utf-8", "replace"))
            except OSError:
                continue
            if lines := [" ".join(line.split()) for line in named if line.strip()]:
                return lines[0][:_LINE]
    return ""


def _front_matter(text: str) -> list[str]:
    """``license`` with its name and link, if given, as one line; not parsed as YAML."""
    head = text.split("\n---", 1)[0] if text.startswith("---") else ""
    return [", ".join(value.strip(" [\"']\r") for value in _LICENCE.findall(head))]


def _digest(config: Any, prepared: Prepared, tensors: str) -> str:
    """SHA-256 over the weights' contents, the configuration and the preprocessing."""
    facts = [
        type(config).__name__,
        settings_of(config),
        prepared.preprocessing.to_dict(),
        list(prepared.mean),
        list(prepared.std),
        tensors,
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class BackboneEncoder(RegionEncoder):
    """A frozen backbone trained elsewhere, with layers over its regions.

    The backbone's weights are not part of this module's state: a checkpoint names them by digest
    (:func:`find_backbone`).  ``reduce`` maps its regions to the grid and dimensions for training;
    its few numbers are part of the state.  ``golden`` has the backbone's regions of a drawn image
    from when features were computed.
    """

    def __init__(
        self,
        backbone: Backbone,
        reduce: FeatureMap,
        dimension: int = 128,
        position: str = "none",
        *,
        golden: Mapping[str, NDArray[Any]],
    ) -> None:
        super().__init__()
        self.offset = backbone.preprocessing.offset
        self.reduce = reduce
        self.golden = golden
        self._held = (backbone,)  # in a tuple, so that torch does not register it
        self._train_on(reduce.width, dimension, position)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.backbone._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    @property
    def backbone(self) -> Backbone:
        return self._held[0]

    @property
    def trunk(self) -> nn.Module:
        """The backbone, which is always locked."""
        return self.backbone

    def note(self) -> dict[str, Any]:
        """A checkpoint's note on the backbone and on how its regions are reduced.

        It has no folder, because the same backbone may be elsewhere.
        """
        note = {key: value for key, value in self.backbone.note().items() if key != "folder"}
        return {**note, "reduce": self.reduce.note()}

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """Regions of images [B, 1, H, W] in [0, 1], reduced: [B, g, g, R], without gradients."""
        regions: Tensor = self.reduce(self.backbone(images))
        return regions


_DIGITS = 12


def find_backbone(note: Mapping[str, Any], checkpoint: Path | None) -> Backbone:
    """Load the backbone of a note (:meth:`Backbone.note`), wherever it is now.

    It is looked for in the checkpoint's ``backbone``, in its noted folder, and in the folders in
    CXRTEXT_BACKBONES and their subfolders.  The digest decides, not the folder's name; weights are
    only read if everything else agrees.
    """
    name, digest, size = (note.get(key) for key in ("name", "digest", "size"))
    if not (isinstance(name, str) and isinstance(digest, str) and isinstance(size, int)):
        raise CheckpointError(
            f"{checkpoint or 'the features'}: the note of its backbone is damaged"
        )
    refused: list[str] = []
    looked: dict[Path, Path] = {}  # folders by their real path, so that each is looked at once
    for folder in _candidates(note, checkpoint):
        looked.setdefault(folder.resolve(), folder)
    for folder in looked.values():
        if not (folder / CONFIG).is_file():
            continue
        try:
            fault = "its images are prepared otherwise"
            if _prepared_alike(folder, note, size):
                backbone = load_backbone(folder, size=size)
                if backbone.digest == digest:
                    return backbone
                fault = f"its digest is {backbone.digest[:_DIGITS]}…: other weights or settings"
        except CheckpointError as error:
            fault = str(error)
        if folder.name in (name, BACKBONE_FOLDER):
            refused.append(f"{folder} is another: {fault}")
    home = f"copy its folder to {checkpoint / BACKBONE_FOLDER}, or " if checkpoint else ""
    places = ", ".join(map(str, looked.values())) or "no folder"
    raise CheckpointError(
        f"backbone '{name}' (digest {digest[:_DIGITS]}…) is not here; "
        f"{'; '.join([*refused, f'looked in {places}'])}; {home}name the folder that holds it in "
        f"{BACKBONES_VARIABLE}"
    )


def _candidates(note: Mapping[str, Any], checkpoint: Path | None) -> Iterator[Path]:
    """Folders to look in; inside a listed folder, those with the right name first."""
    if checkpoint is not None:
        yield checkpoint / BACKBONE_FOLDER
    if isinstance(note.get("folder"), str) and note["folder"]:
        yield Path(note["folder"])
    for listed in filter(None, os.environ.get(BACKBONES_VARIABLE, "").split(os.pathsep)):
        folder = Path(listed).expanduser()
        yield folder
        inside = (path.parent for path in folder.glob(f"*/{CONFIG}"))
        yield from sorted(inside, key=lambda path: (path.name != note["name"], path))


def _prepared_alike(folder: Path, note: Mapping[str, Any], size: int) -> bool:
    prepared = prepared_of(folder, size)
    here = [prepared.preprocessing.to_dict(), list(prepared.mean), list(prepared.std)]
    return here == [note.get(key) for key in ("preprocessing", "channel_mean", "channel_std")]
