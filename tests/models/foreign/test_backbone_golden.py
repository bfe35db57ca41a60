"""The golden image: what breaks one thing is caught, and only then."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cxrtext.errors import CheckpointError
from cxrtext.models.foreign import check_golden, load_backbone, make_golden
from cxrtext.models.foreign.golden import draw
from cxrtext.models.foreign.network import BACKBONES
from tests import small_backbones


@pytest.fixture
def registers(tmp_path: Path) -> Path:
    return small_backbones.write(tmp_path / "model", "dinov2_with_registers")


@pytest.mark.parametrize("model_type", BACKBONES)
def test_a_backbone_loaded_again_passes(tmp_path: Path, model_type: str) -> None:
    folder = small_backbones.write(tmp_path / "model", model_type)
    golden = make_golden(load_backbone(folder))
    again = load_backbone(folder)
    check_golden(again, golden)
    again.mean += 1 / 255
    with pytest.raises(CheckpointError, match="regions of the golden example"):
        check_golden(again, golden)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"image_mean": [0.53, 0.48, 0.45]}, "regions of the golden example"),
        ({"resample": 2}, "resized otherwise"),
        ({"size": {"height": 32, "width": 32}}, "resized otherwise"),
    ],
)
def test_another_mean_filter_or_fit_is_caught(
    registers: Path, values: dict[str, Any], said: str
) -> None:
    golden = make_golden(load_backbone(registers))
    path = registers / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(CheckpointError, match=said) as error:
        check_golden(load_backbone(registers), golden)
    assert "backbone 'model'" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_drawing_is_the_same_everywhere_and_its_path_in_float32(registers: Path) -> None:
    backbone = load_backbone(registers)
    golden = make_golden(backbone)
    assert draw().shape == (1, 761, 613)
    assert draw().astype(np.int64).sum() == 60_251_285  # everywhere
    resized = Image.fromarray(draw()[0]).resize((32, 39), Image.Resampling.BICUBIC)
    crop = np.asarray(resized)[5:33, 2:30]
    pixels = torch.from_numpy(crop / np.float32(255))[None, None]
    np.testing.assert_array_equal(golden["regions"], backbone(pixels)[0].numpy())
    backbone.precision = "bfloat16"  # the check is in float32 nevertheless
    check_golden(backbone, golden)


def test_a_damaged_golden_is_refused(registers: Path) -> None:
    backbone = load_backbone(registers)
    golden = make_golden(backbone)
    for name in golden:
        with pytest.raises(CheckpointError, match="is damaged"):
            check_golden(backbone, {k: v for k, v in golden.items() if k != name})
    other = golden | {"regions": golden["regions"][:3]}
    with pytest.raises(CheckpointError, match=r"are \[4, 4, 24\], and were \[3, 4, 24\]"):
        check_golden(backbone, other)
