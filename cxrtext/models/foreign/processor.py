"""A model's own preprocessing, from its ``preprocessor_config.json``, as this program's.

Rules are those of transformers' image processors with Pillow, bit for bit.  Processors of
torchvision (transformers' default where it is installed) resample with its own filters and may
differ by a gray level; DINOv3's, which exists with torchvision alone, does not round the resized
image to 8 bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from cxrtext.errors import CheckpointError
from cxrtext.files import check_listed
from cxrtext.images.preprocessing import MAX_RESIZE, Preprocessing, Resample
from cxrtext.models.folders import read_json

FILE, NESTED = "preprocessor_config.json", "processor_config.json"
FILTERS: tuple[Resample, ...] = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""By Pillow's number."""
_UNDISTORTED = 384  # px; ConvNeXT's processor crops below, and stretches from here on
_KNOWN = {
    *("do_resize", "do_center_crop", "do_rescale", "do_normalize"),
    *("do_convert_rgb", "do_convert_grayscale"),
}
_HALF = (0.5, 0.5, 0.5)
_OPENAI = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_EXAMPLE = (
    'for example {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 518}, '
    '"crop_size": 518, "resample": 3, "image_mean": [0.5], "image_std": [0.25]}'
)


@dataclass(frozen=True, slots=True)
class _Processor:
    """What a class of image processors does where the file does not say it."""

    size: Any
    mean: tuple[float, ...] = _HALF
    std: tuple[float, ...] = _HALF
    crop: int | None = None
    resample: int = 3
    square: bool = False  # whether one number of ``size`` means both sides
    top: bool = False  # whether the deviation divides a second time, EfficientNet's include_top


_BIT = _Processor({"shortest_edge": 224}, *_OPENAI, crop=224)
PROCESSORS: dict[str, _Processor] = {
    "BitImageProcessor": _BIT,
    "CLIPImageProcessor": _BIT,
    "ConvNextImageProcessor": _Processor({"shortest_edge": 384}),
    "DeiTImageProcessor": _Processor(256, crop=224, square=True),
    "DINOv3ViTImageProcessor": _Processor(224, *_IMAGENET, resample=2, square=True),
    "EfficientNetImageProcessor": _Processor(346, square=True, top=True),
    "SiglipImageProcessor": _Processor({"height": 224, "width": 224}),
    "ViTImageProcessor": _Processor(224, resample=2, square=True),
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """How a backbone's input is made: squares in [0, 1], then each channel's mean and std."""

    preprocessing: Preprocessing  # with mean 0 and std 1
    mean: tuple[float, ...]  # one a channel
    std: tuple[float, ...]

    def at(self, size: int | None) -> Prepared:
        """The same with another crop, of ``size`` pixels; the resize keeps its ratio to it."""
        own = self.preprocessing
        if size is None or size == own.crop:
            return self
        resize = max(size, math.floor(own.resize * size / own.crop + 0.5))
        made = Preprocessing(resize, size, 0.0, 1.0, own.resample, own.fit)
        return replace(self, preprocessing=made)


def read_processor(folder: Path, default: str, channels: int) -> Prepared:
    """Read how a model wants its images: those of so many channels.

    That stands in ``preprocessor_config.json`` of its folder, or under ``image_processor`` in
    ``processor_config.json``; ``default`` is the class of processor where the file names none.
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
    rules = PROCESSORS[name]
    for key in sorted(values):
        if key.startswith("do_") and key not in _KNOWN and values[key]:
            raise CheckpointError(
                f"{path}: {key} is a rule that this program does not have; known are "
                f"{', '.join(sorted(_KNOWN))}"
            )
    if values.get("do_resize") is False:
        raise CheckpointError(
            f"{path}: do_resize is false, and images come in every size; write the size that the "
            "model was trained with"
        )
    try:
        preprocessing = _squares(values, rules, ratio_rule=name == "ConvNextImageProcessor")
        mean, std = _levels(values, rules, channels)
    except (ValueError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    return Prepared(preprocessing, mean, std)


def _read(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    for name in (FILE, NESTED):
        path = folder / name
        if not path.is_file():
            continue
        check_listed(path, CheckpointError)
        values = read_json(path)
        if isinstance(values, dict) and isinstance(values.get("image_processor"), dict):
            values = values["image_processor"]
        elif name == NESTED:
            continue
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}: not a JSON object")
        return path, values
    raise CheckpointError(
        f"{folder}: no {FILE}, so how its images were resized and scaled is not known; copy it "
        f"from the model, or write it: {_EXAMPLE}"
    )


def _squares(values: Mapping[str, Any], rules: _Processor, *, ratio_rule: bool) -> Preprocessing:
    """The resize and the crop.  ``ratio_rule``: ConvNeXT's, with ``crop_pct``."""
    resample = values.get("resample", rules.resample)
    if resample not in range(len(FILTERS)):
        raise ValueError(f"resample {resample!r} is none of Pillow's filters, 0 to 5")
    chosen = FILTERS[int(resample)]
    size, stretch = _size(values.get("size", rules.size), rules)
    crops = values.get("do_center_crop", rules.crop is not None)
    if ratio_rule:
        if stretch:
            raise ValueError('size has to be {"shortest_edge": N} for ConvNextImageProcessor')
        if size >= _UNDISTORTED:
            resize, crop, stretch = size, size, True
        else:
            resize, crop = int(size / float(values.get("crop_pct") or 224 / 256)), size
        if crops:
            crop = _crop(values.get("crop_size", crop))
    elif crops:
        resize, crop = size, _crop(values.get("crop_size", rules.crop or size))
    elif stretch:
        resize, crop = size, size
    else:
        raise ValueError(
            "without a crop the longer side keeps its length, and a grid is of squares; write "
            f'"do_center_crop": true and "crop_size": {size}, or "size" with height and width'
        )
    if crop > resize:
        raise ValueError(f"crop_size {crop} is larger than size {resize}, which would be padded")
    return Preprocessing(resize, crop, 0.0, 1.0, chosen, "stretch" if stretch else "center")


def _size(size: Any, rules: _Processor) -> tuple[int, bool]:
    """The side, and whether both sides become that."""
    if isinstance(size, dict):
        size = {key: value for key, value in size.items() if value is not None}
        if size.keys() == {"shortest_edge"}:
            return _pixels("size", size["shortest_edge"]), False
        if size.keys() == {"height", "width"} and size["height"] == size["width"]:
            return _pixels("size", size["height"]), True
        raise ValueError(
            f"size {json.dumps(size)} is no rule that this program has; those are "
            '{"shortest_edge": N}, and {"height": N, "width": N} with two equal sides'
        )
    return _pixels("size", size), rules.square


def _crop(crop: Any) -> int:
    if isinstance(crop, dict):
        kept = {key: value for key, value in crop.items() if value is not None}
        if kept.keys() != {"height", "width"} or kept["height"] != kept["width"]:
            raise ValueError(f"crop_size {json.dumps(kept)} is no square; write one number")
        crop = kept["height"]
    return _pixels("crop_size", crop)


def _pixels(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_RESIZE:
        raise ValueError(f"{name} {value!r} is no number of pixels up to {MAX_RESIZE}")
    return value


def _levels(
    values: Mapping[str, Any], rules: _Processor, channels: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std of each channel, for gray values in [0, 1]."""
    if values.get("do_rescale", True):
        top = 255 * _numbers("rescale_factor", [values.get("rescale_factor", 1 / 255)])[0]
    else:
        top = 255.0
    mean, std = (0.0,) * channels, (1.0,) * channels
    scale = _a_channel("image_std", values.get("image_std") or rules.std, channels)
    if values.get("do_normalize", True):
        mean = _a_channel("image_mean", values.get("image_mean") or rules.mean, channels)
        std = scale
    if values.get("rescale_offset", False):
        mean = tuple(x + 1 for x in mean)
    if values.get("include_top", rules.top):
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
        raise ValueError(f"{name} {given!r} holds what is no finite number")
    return tuple(float(x) for x in given)


assert set(FILTERS) == set(get_args(Resample))  # noqa: S101
