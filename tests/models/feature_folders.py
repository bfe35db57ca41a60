"""A folder of features without a backbone: what ``cxrtext encode`` would have written."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from cxrtext.files import sha256
from cxrtext.models.features.feature_map import FeatureMap
from cxrtext.models.features.folder import LOOK, LOOKS, REGIONS, SIZES, FeatureShard, write_features

PLANTED = {"model_type": "vit", "name": "planted", "digest": "0" * 64, "licence": ""}
"""What there is of a note of a backbone."""


def write_feature_folder(
    folder: Path,
    regions: NDArray[Any],
    names: Sequence[str],
    *,
    rejected: Mapping[str, str] | None = None,
    rows: int = 5,
) -> Path:
    """Write regions [n, V, g, g, R] of images as a folder of features, so many rows a shard."""
    shape = regions.shape[2:]
    made = FeatureMap(shape[-1])
    (folder / "shards").mkdir(parents=True)
    save_tensors(made.state_dict(), folder / "map.safetensors")
    save_file({"image": np.zeros(1, np.float32)}, folder / "golden.safetensors")
    shards, images = [], []
    for number, start in enumerate(range(0, len(regions), rows)):
        part = np.ascontiguousarray(regions[start : start + rows], dtype=np.float16)
        heights = range(100 + start, 100 + start + len(part))
        sizes = np.array([[height, 80] for height in heights], np.int32)
        path = folder / f"shards/{number:06d}.safetensors"
        looks = np.full((len(part), LOOK), start, np.float32)
        save_file({REGIONS: part, SIZES: sizes, LOOKS: looks}, path)
        shards.append(FeatureShard(f"shards/{path.name}", len(part), sha256(path)[:16]))
        images += [(names[start + i], number, i, height, 80) for i, height in enumerate(heights)]
    _write(folder / "images.csv", ("image", "shard", "row", "height", "width"), images)
    _write(folder / "rejected.csv", ("item", "reason"), list((rejected or {}).items()))
    write_features(
        folder,
        backbone={**PLANTED, "channels": made.channels},
        feature_map=made.note(),
        shape=(shape[0], shape[1], shape[2]),
        shards=shards,
        rejected=len(rejected or {}),
        files={"map": "map.safetensors", "golden": "golden.safetensors"},
        more={"command": "cxrtext encode MANIFEST --backbone DIR"},
    )
    return folder


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])


def drawn_regions(count: int, views: int, side: int, width: int, seed: int = 0) -> NDArray[Any]:
    """Regions [count, views, side, side, width] of normal values, float16."""
    generator = torch.Generator().manual_seed(seed)
    drawn: NDArray[Any] = torch.randn(count, views, side, side, width, generator=generator).numpy()
    return drawn.astype(np.float16)
