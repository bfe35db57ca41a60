"""Turns a model's ``preprocessor_config.json`` into this program's preprocessing.

Rules and defaults are those of transformers' image processors with Pillow, bit for bit.
torchvision's processors (transformers' default if it is installed) have their own resampling
filters and may differ by a gray level.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from cxrtext.errors import CheckpointError
from cxrtext.files import check_listed
from cxrtext.images.preprocessing import MAX_RESIZE, Fit, Preprocessing, Resample
from cxrtext.models.folders import read_object

FILE, NESTED = "preprocessor_config.json", "processor_config.json"
FILTERS: tuple[Resample, ...] = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""By Pillow's number."""
_UNDISTORTED = 384  # px; ConvNeXT's processor crops below this size, and stretches from it on
_CONVNEXT = "ConvNextImageProcessor"
PROCESSORS = (
    *("BitImageProcessor", "CLIPImageProcessor", _CONVNEXT, "DeiTImageProcessor"),
    *("EfficientNetImageProcessor", "SiglipImageProcessor", "ViTImageProcessor"),
)
DEFAULTS = {
    **dict.fromkeys(("resnet", "convnext", "convnextv2"), _CONVNEXT),
    "vit": "ViTImageProcessor",
    **dict.fromkeys(("dinov2", "dinov2_with_registers"), "BitImageProcessor"),
    "efficientnet": "EfficientNetImageProcessor",
    "siglip_vision_model": "SiglipImageProcessor",
    "clip_vision_model": "CLIPImageProcessor",
}
"""transformers' default class by ``model_type``, for a file that names none."""
_RULES = ("do_resize", "do_center_crop", "do_rescale", "do_normalize")
_KNOWN = {*_RULES, "do_convert_rgb", "do_convert_grayscale"}
_READ = (
    *(*_RULES, "size", "crop_size", "crop_pct", "resample", "rescale_factor", "rescale_offset"),
    *("image_mean", "image_std", "include_top"),
)
_EXAMPLE = (
    'for example {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 518}, '
    '"crop_size": 518, "resample": 3, "image_mean": [0.5], "image_std": [0.25]}'
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """How a backbone's input is made: squares in [0, 1], then each channel's mean and std."""

    preprocessing: Preprocessing  # with mean 0 and std 1
    mean: tuple[float, ...]  # one per channel
    std: tuple[float, ...]

    def at(self, size: int | None) -> Prepared:
        """The same with a crop of ``size`` pixels; the resize keeps its ratio to it."""
        own = self.preprocessing
        if size is None or size == own.crop:
            return self
        resize = max(size, math.floor(own.resize * size / own.crop + 0.5))
        made = Preprocessing(resize, size, 0.0, 1.0, own.resample, own.fit)
        return replace(self, preprocessing=made)


def read_processor(folder: Path, default: str, channels: int) -> Prepared:
    """Read a model's preprocessing, for images with this number of channels.

    It is in ``preprocessor_config.json``, or under ``image_processor`` in
    ``processor_config.json``; ``default`` is the processor's class if the file names none.
    """
    path, values = _read(folder)
    name = str(values.get("image_processor_type") or values.get("feature_extractor_type") or "")
    name = name.replace("FeatureExtractor", "ImageProcessor")
    name = name.removesuffix("Fast").removesuffix("Pil") or default
    if name not in PROCESSORS:
        raise CheckpointError(
            f"{path}: image_processor_type {name!r} is not known; write the one of these that "
            f"does the same: {', '.join(PROCESSORS)}"
        )
    for key in sorted(values):
        if key.startswith("do_") and key not in _KNOWN and values[key]:
            raise CheckpointError(
                f"{path}: {key} is not supported; known are {', '.join(sorted(_KNOWN))}"
            )
    if values.get("do_resize") is False:
        raise CheckpointError(
            f"{path}: do_resize is false, and images come in every size; write the size that the "
            "model was trained with"
        )
    return prepared_by(path, name, values, channels)


def prepared_by(path: Path, name: str, values: Mapping[str, Any], channels: int) -> Prepared:
    """The preprocessing of a transformers image processor, by its class and a file's values."""
    try:
        rules = _rules(name, values)
        preprocessing = _squares(rules, ratio_rule=name == _CONVNEXT)
        mean, std = _levels(rules, channels)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise CheckpointError(f"{path}: {' '.join(str(error).split())}") from None
    return Prepared(preprocessing, mean, std)


def _read(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    for name in (FILE, NESTED):
        path = folder / name
        if not path.is_file():
            continue
        check_listed(path, CheckpointError)
        values = read_object(path)
        nested = values.get("image_processor")
        if name == FILE or isinstance(nested, dict):
            return path, nested if isinstance(nested, dict) else values
    raise CheckpointError(
        f"{folder}: no {FILE}, so how its images were resized and scaled is not known; copy it "
        f"from the model, or write it: {_EXAMPLE}"
    )


def _rules(name: str, values: Mapping[str, Any]) -> Any:
    """The image processor in transformers with this class and the values of a file."""
    import transformers

    given = {key: values[key] for key in _READ if values.get(key) is not None}
    return getattr(transformers, f"{name}Pil")(**given)


def _squares(rules: Any, *, ratio_rule: bool) -> Preprocessing:
    """The resize and the crop.  ``ratio_rule``: ConvNeXT's, with ``crop_pct``."""
    if rules.resample not in range(len(FILTERS)):
        raise ValueError(f"resample {rules.resample!r} is not one of Pillow's filters, 0 to 5")
    sides = {key: side for key, side in asdict(rules.size).items() if side is not None}
    stretch = sides.keys() == {"height", "width"} and sides["height"] == sides["width"]
    if not stretch and sides.keys() != {"shortest_edge"}:
        raise ValueError(
            f"size {json.dumps(sides)} is not supported; use "
            '{"shortest_edge": N}, or {"height": N, "width": N} with two equal sides'
        )
    resize = crop = size = _pixels("size", next(iter(sides.values())))
    if ratio_rule:
        if stretch:
            raise ValueError('size has to be {"shortest_edge": N} for ConvNextImageProcessor')
        stretch = size >= _UNDISTORTED
        resize = size if stretch else int(size / float(rules.crop_pct))
    if rules.do_center_crop and rules.crop_size is not None:
        given = rules.crop_size
        if given.height != given.width:
            raise ValueError(f"crop_size {given} is not a square; write one number")
        crop = _pixels("crop_size", given.height)
    elif not (ratio_rule or stretch):
        raise ValueError(
            "without a crop the longer side keeps its length, and a grid is of squares; write "
            f'"do_center_crop": true and "crop_size": {size}, or "size" with height and width'
        )
    if crop > resize:
        raise ValueError(f"crop_size {crop} is larger than size {resize}, which would be padded")
    fit: Fit = "stretch" if stretch else "center"
    return Preprocessing(resize, crop, 0.0, 1.0, FILTERS[int(rules.resample)], fit)


def _pixels(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_RESIZE:
        raise ValueError(f"{name} {value!r} is not a number of pixels up to {MAX_RESIZE}")
    return value


def _levels(rules: Any, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std of each channel, for gray values in [0, 1]."""
    top = 255.0
    if rules.do_rescale:
        top *= _numbers("rescale_factor", [rules.rescale_factor])[0]
    mean, std = (0.0,) * channels, (1.0,) * channels
    scale = _a_channel("image_std", rules.image_std, channels)
    if rules.do_normalize:
        mean, std = _a_channel("image_mean", rules.image_mean, channels), scale
    if getattr(rules, "rescale_offset", False):
        mean = tuple(x + 1 for x in mean)
    if getattr(rules, "include_top", False):  # EfficientNet's deviation divides a second time
        std = tuple(x * y for x, y in zip(std, scale, strict=True))
    if min(*std, top) <= 0:
        raise ValueError("image_std and rescale_factor have to be above 0")
    if abs(top - 1) < 1e-9:  # 1/255 is written with any number of digits
        return mean, std
    return tuple(x / top for x in mean), tuple(x / top for x in std)


def _a_channel(name: str, given: Any, channels: int) -> tuple[float, ...]:
    numbers = _numbers(name, given if isinstance(given, list | tuple) else [given])
    if len(numbers) == 1:
        return numbers * channels
    if channels == 1 and len(set(numbers)) == 1:
        return numbers[:1]
    if len(numbers) != channels:
        raise ValueError(f"{name} has {len(numbers)} numbers, and the model {channels} channel(s)")
    return numbers


def _numbers(name: str, given: Any) -> tuple[float, ...]:
    if not all(isinstance(x, int | float) and math.isfinite(x) for x in given):
        raise ValueError(f"{name} {given!r} has a value that is not a finite number")
    return tuple(float(x) for x in given)


assert set(FILTERS) == set(get_args(Resample))  # noqa: S101
