"""A model's own preprocessing against transformers' image processors with Pillow."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import transformers
from PIL import Image

from cxrtext.errors import CheckpointError
from cxrtext.models.foreign.processor import Prepared, read_processor

SHAPES = [(70, 70), (61, 83), (97, 58), (30, 41), (200, 64), (311, 207)]
SQUARE = {"height": 56, "width": 56}
OPENAI = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
RULES: list[tuple[str, dict[str, Any]]] = [
    ("BitImageProcessor", {"size": {"shortest_edge": 52}, "crop_size": 52, "resample": 3}),
    ("BitImageProcessor", {"size": {"shortest_edge": 60}, "crop_size": 45, "resample": 2}),
    ("CLIPImageProcessor", {"size": 51, "crop_size": 48, "resample": 1, **OPENAI}),
    ("CLIPImageProcessor", {"size": {"shortest_edge": 57}, "crop_size": 50, "resample": 0}),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 48}, "crop_pct": 0.875}),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}}),
    ("DeiTImageProcessor", {"size": 64, "crop_size": 55}),
    ("EfficientNetImageProcessor", {"size": SQUARE, "resample": 0}),
    ("EfficientNetImageProcessor", {"size": 44, "rescale_offset": True, "include_top": False}),
    ("SiglipImageProcessor", {"size": {"height": 49, "width": 49}, "resample": 2}),
    ("ViTImageProcessor", {"size": 48, "resample": 4}),
    ("ViTImageProcessor", {"size": {"height": 48, "width": 48}, "do_normalize": False}),
    ("ViTImageProcessor", {"size": 40, "do_rescale": False, "image_mean": [120.0] * 3}),
    ("ViTImageProcessor", {"size": 40, "rescale_factor": 1 / 127.5, "resample": 5}),
]


def picture(height: int, width: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(height).integers(0, 256, (height, width), dtype=np.uint8)


def pixels(prepared: Prepared, gray: npt.NDArray[np.uint8]) -> npt.NDArray[np.floating[Any]]:
    """What a backbone's network gets, [C, crop, crop]."""
    made = prepared.preprocessing.prepare(gray[np.newaxis])
    mean, std = (np.array(x, np.float32)[:, None, None] for x in (prepared.mean, prepared.std))
    values: npt.NDArray[np.floating[Any]] = (made - mean) / std
    return values


@pytest.mark.parametrize(("name", "values"), RULES)
def test_pixels_are_those_of_transformers(
    tmp_path: Path, name: str, values: dict[str, Any]
) -> None:
    """Of a short file, as they were once written, and of the whole one."""
    processor = getattr(transformers, f"{name}Pil")(**values)
    short = write(tmp_path, image_processor_type=f"{name}Fast", **values)
    prepared = read_processor(short, "", 3)
    assert read_processor(write(tmp_path, **values), name, 3) == prepared
    processor.save_pretrained(tmp_path)
    assert read_processor(tmp_path, "", 3) == prepared
    for height, width in SHAPES:
        gray = picture(height, width)
        three = Image.fromarray(gray).convert("RGB")
        wanted = processor(three, return_tensors="np")["pixel_values"][0]
        given = pixels(prepared, gray)
        assert given.shape == wanted.shape
        # Equal to the last of 8 bits, a step of which is 1 / 255 / std.
        np.testing.assert_allclose(given, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def write(folder: Path, **values: Any) -> Path:
    (folder / "preprocessor_config.json").write_text(json.dumps(values))
    return folder


def test_old_and_nested_files_are_read(tmp_path: Path) -> None:
    old = write(tmp_path, feature_extractor_type="ViTFeatureExtractor", size=48, resample=2)
    wanted = read_processor(old, "BitImageProcessor", 3)
    assert (wanted.preprocessing.fit, wanted.preprocessing.resample) == ("stretch", "bilinear")
    (tmp_path / "preprocessor_config.json").unlink()
    nested = {"image_processor": {"image_processor_type": "ViTImageProcessor", "size": 48}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    assert read_processor(tmp_path, "BitImageProcessor", 3) == wanted


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"image_processor_type": "AutoImageProcessor"}, "'AutoImageProcessor' is not known"),
        ({"do_resize": False}, "do_resize is false"),
        (
            {"size": {"shortest_edge": 64, "longest_edge": 99}},
            "is not supported; use",
        ),
        ({"size": 64, "crop_size": 65}, "crop_size 65 is larger than size 64"),
        ({"size": 64, "do_center_crop": False}, 'write "do_center_crop": true'),
        ({"resample": 9}, "resample 9 is not one of Pillow's filters"),
        ({"image_mean": [0.5, 0.5]}, "image_mean has 2 numbers"),
        ({"rescale_factor": "1/255"}, "not a finite number"),
    ],
)
def test_rules_that_are_not_known_are_refused(
    tmp_path: Path, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(CheckpointError) as error:
        read_processor(write(tmp_path, **values), "CLIPImageProcessor", 3)
    line = str(error.value)
    assert line.startswith(f"{tmp_path / 'preprocessor_config.json'}: ")
    assert said in line
    assert "\n" not in line


def test_a_folder_without_the_file_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no preprocessor_config.json.* or write it: for"):
        read_processor(tmp_path, "BitImageProcessor", 3)
    example = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 518}}
    read_processor(write(tmp_path, **example, crop_size=518), "", 3)
    for text in ("{", "[]", '{"a": NaN'):
        (tmp_path / "preprocessor_config.json").write_text(text)
        with pytest.raises(CheckpointError, match="not a"):
            read_processor(tmp_path, "BitImageProcessor", 3)
