"""A finished pair of towers as a model, checked against its digests and its golden answers.

Loading writes nothing.  A copy made by cxrtext becomes a checkpoint by further files: its
description (``cxrtext.json``), its embeddings of a drawn image and a sentence
(``golden.safetensors``), and digests (``SHA256SUMS``).  These are checked at each load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file as save_arrays
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.files import SUMS, check_folder, copy_files, replacing_folder, write_json, write_sums
from cxrtext.models.folders import (
    ADOPTED,
    CARDS,
    GOLDEN,
    pair_files,
    pair_fingerprint,
    read_checkpoint_config,
)
from cxrtext.models.foreign.backbone import licence_of
from cxrtext.models.foreign.golden import answers, compare
from cxrtext.models.foreign.layouts import LAYOUTS, Parts
from cxrtext.models.foreign.text import check_pieces
from cxrtext.models.image_text import MAX_DIMENSION, ImageTextModel, ModelSpec
from cxrtext.models.similarity import region_scores
from cxrtext.models.weight_files import read_safetensors

FORMAT, VERSION = "cxrtext finished pair", 1
SENTENCE = "Small left pleural effusion. No pneumothorax."
MAX_SIDE = 1024
"""Longest side of a pair's input image, in pixels."""


class FinishedPair(ImageTextModel):
    """Two towers from elsewhere; its score is the cosine of their global embeddings.

    It is not trained further.  ``noted`` is its description in a copy of its folder.
    """

    def __init__(self, parts: Parts, title: str, noted: Mapping[str, Any]) -> None:
        spec = ModelSpec(
            image=title,
            text=parts.text,
            dimension=parts.dimension,
            aggregator="global",
            query="none",
            max_tokens=parts.max_tokens,
            preprocessing=parts.preprocessing,
        )
        super().__init__(spec, parts.tokenizer, parts.images, parts.texts)
        with torch.no_grad():  # without a cap, because it is not trained
            self.log_gamma_sq.fill_(math.log(parts.scale))
        self.noted = noted
        self.requires_grad_(requires_grad=False).eval()

    @property
    def has_regions(self) -> bool:
        return bool(self.image_encoder.has_patches)

    def maps(self, regions: Tensor, texts: Tensor) -> Tensor:
        return region_scores(F.normalize(regions.float(), dim=-1), texts)

    def answers(self) -> dict[str, Any]:
        """Its answers for the golden image, and "text" [D] for a sentence."""
        images = answers(self.spec.preprocessing, self.device, self.embed_images)
        return images | {"text": self.embed_sentences([SENTENCE])[0].cpu().numpy()}


def load_pair(folder: Path, layout: str) -> FinishedPair:
    """Load the finished pair of a layout in a folder (CheckpointError); nothing is written there.

    A copy's files must still have their digests, and its towers must still give the same vectors.
    """
    adopted = (folder / ADOPTED).is_file()
    again = f"copy the folder again, or take {ADOPTED}, {GOLDEN} and {SUMS} away"
    noted: Mapping[str, Any] = {}
    if adopted:
        check_folder(folder, (ADOPTED, GOLDEN, *pair_files(folder)), CheckpointError, again)
        noted = read_checkpoint_config(folder)
        if (noted.get("format"), noted.get("version")) != (FORMAT, VERSION):
            raise CheckpointError(
                f"{folder / ADOPTED}: written by another version of cxrtext; {again}"
            )
    parts = _parts(folder, layout)
    title = f"{noted.get('name', folder.resolve().name)} ({layout})"
    model = FinishedPair(parts, title, noted or _described(folder, layout, parts))
    vectors = model.answers()
    if not all(np.isfinite(vectors[what]).all() for what in ("regions", "text")):
        raise CheckpointError(f"{folder}: its embeddings are not finite numbers; {again}")
    if vectors["regions"].shape[-1] != vectors["text"].shape[-1]:
        raise CheckpointError(f"{folder}: its two towers embed in different numbers of dimensions")
    if adopted:
        kept = {name: x.numpy() for name, x in read_safetensors(folder / GOLDEN).items()}
        compare(str(folder), vectors, kept)
    model.folder, model.fingerprint = folder, pair_fingerprint(folder)
    return model


def _parts(folder: Path, layout: str) -> Parts:
    """The towers of a folder and what belongs to them; checked to work together."""
    parts = LAYOUTS[layout](folder)
    check_pieces(folder, parts.tokenizer, parts.text["vocab_size"])
    trunk: Any = parts.texts.trunk
    for what, value, most in (
        ("side of an image", parts.preprocessing.resize, MAX_SIDE),
        ("longest sentence", parts.max_tokens, trunk.config.max_position_embeddings),
        ("joint space", parts.dimension, MAX_DIMENSION),
    ):
        if not 2 < value <= most:
            raise CheckpointError(f"{folder}: its {what} is {value}, not 3 to {most}")
    if not 0 < parts.scale < math.inf:
        raise CheckpointError(f"{folder}: its scale of similarities is {parts.scale}")
    return parts


def save_pair(folder: Path, model: FinishedPair) -> None:
    """Write a finished pair, with the files that it was loaded from."""
    assert model.folder is not None  # noqa: S101 - it was loaded
    with replacing_folder(folder, sums=False) as made:
        cards = [path for pattern in CARDS for path in model.folder.glob(pattern)]
        plain = [path.name for path in cards if path.is_file() and not path.is_symlink()]
        copy_files(model.folder, [*pair_files(model.folder), *plain], made)
        golden = {key: np.ascontiguousarray(x) for key, x in model.answers().items()}
        save_arrays(golden, made / GOLDEN)
        write_json(made / ADOPTED, {**model.noted, "scale": float(model.gamma_sq)})
        write_sums(made)


def _described(folder: Path, layout: str, parts: Parts) -> dict[str, Any]:
    """A pair's description for a copy of its folder."""
    prepared = replace(parts.preprocessing, offset=parts.images.offset)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": folder.resolve().name,
        "layout": layout,
        "licence": licence_of(folder),
        "dimension": parts.dimension,
        "max_tokens": parts.max_tokens,
        "regions": parts.images.has_patches,
        "preprocessing": prepared.to_dict(),
        "backbone": None,
    }
