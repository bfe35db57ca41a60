"""A finished pair of towers as a model: loaded, compared with its digests and its golden answers.

Loading writes nothing.  A copy that cxrtext makes is a checkpoint by what is written beside its
files: what it is (``cxrtext.json``), what it makes of a drawn image and a sentence
(``golden.safetensors``), and digests (``SHA256SUMS``).  These are compared at each load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.files import (
    SUMS,
    check_folder,
    copy_files,
    file_in,
    replacing_folder,
    write_json,
    write_sums,
)
from cxrtext.models.folders import (
    ADAPTERS,
    ADOPTED,
    CARDS,
    GOLDEN,
    TRAINING,
    foreign,
    layout_of,
    pair_files,
    pair_fingerprint,
    read_checkpoint_config,
)
from cxrtext.models.foreign.backbone import licence_of
from cxrtext.models.foreign.golden import check_square, draw
from cxrtext.models.foreign.layouts import LAYOUTS, Parts
from cxrtext.models.foreign.text import check_pieces
from cxrtext.models.foreign.towers import Adapter
from cxrtext.models.image_text import FINISHED, MAX_DIMENSION, ImageTextModel, ModelSpec
from cxrtext.models.similarity import region_scores
from cxrtext.models.weight_files import filled, on_cpu, read_safetensors

FORMAT, VERSION = "cxrtext finished pair", 1
SENTENCE = "Small left pleural effusion. No pneumothorax."
MAX_SIDE = 1024
"""Longest side of an image that a pair may want, in pixels."""
TOLERANCE = 1e-3
"""Largest difference of a unit vector's numbers that rounding makes, on other processors."""


@dataclass(frozen=True, slots=True)
class FinishedSpec(ModelSpec):
    """What a finished pair is."""

    title: str = ""

    @property
    def image_title(self) -> str:
        return self.title


class FinishedPair(ImageTextModel):
    """Two towers of elsewhere; its score is the cosine of their global embeddings.

    ``noted`` is what a copy of its folder says of it.  ``adapted``: each tower has an adapter, and
    these are all that is trained; where a pair says no γ², it begins as in a new model.
    """

    noted: Mapping[str, Any]

    def __init__(self, parts: Parts, title: str, *, adapted: bool) -> None:
        spec = FinishedSpec(
            image=FINISHED,
            text=parts.text,
            dimension=parts.dimension,
            aggregator="global",
            query="none",
            max_tokens=parts.max_tokens,
            preprocessing=parts.preprocessing,
            title=title,
        )
        super().__init__(spec, parts.tokenizer, parts.images, parts.texts)
        self.adapted = adapted
        scale = spec.gamma_sq if adapted and parts.scale == 1.0 else parts.scale
        with torch.no_grad():  # no cap unless it is trained
            self.log_gamma_sq.fill_(math.log(scale))
        if not adapted:
            self.requires_grad_(requires_grad=False)
            return
        parts.images.adapter, parts.texts.adapter = Adapter(spec.dimension), Adapter(spec.dimension)
        self.bound()

    @property
    def has_regions(self) -> bool:
        return bool(self.image_encoder.has_patches)

    def maps(self, regions: Tensor, texts: Tensor) -> Tensor:
        return region_scores(F.normalize(regions.float(), dim=-1), texts)


def load_pair(folder: Path, device: str = "cpu", *, to_adapt: bool = False) -> FinishedPair:
    """Load the finished pair of a folder (CheckpointError); nothing is written there.

    The files of a copy must have the digests, and its towers give the vectors, of when it was made.
    ``to_adapt``: a training goes on from it, which must not have been trained on before.
    """
    with foreign(folder):
        return _load(folder, to_adapt=to_adapt).to(device)


def _load(folder: Path, *, to_adapt: bool) -> FinishedPair:
    layout = layout_of(folder)
    if layout is None:
        raise CheckpointError(f"{folder}: holds no finished pair that is known")
    adopted = (folder / ADOPTED).is_file()
    again = "copy the folder again"
    if not (folder / ADAPTERS).is_file():
        again += f", or take {ADOPTED}, {GOLDEN} and {SUMS} away"
    elif not adopted:
        raise CheckpointError(f"{folder}: has {ADAPTERS} and no {ADOPTED}; {again}")
    noted = {}
    if adopted:
        check_folder(folder, (ADOPTED, GOLDEN, *pair_files(folder)), CheckpointError, again)
        noted = read_checkpoint_config(folder)
        if (noted.get("format"), noted.get("version")) != (FORMAT, VERSION):
            raise CheckpointError(f"{folder / ADOPTED}: of another version of cxrtext; {again}")
    parts = _parts(folder, layout)
    title = f"{noted.get('name', folder.resolve().name)} ({layout})"
    kept = noted.get("continued")
    if kept and kept["aggregator"] != "global":
        raise CheckpointError(f"{folder / ADOPTED}: of another version of cxrtext; {again}")
    model = FinishedPair(parts, title, adapted=bool(kept)).eval()
    if kept:
        filled(folder / ADAPTERS, lambda: model, read_safetensors(folder / ADAPTERS))
    found = _answers(model)
    if not all(np.isfinite(found[what]).all() for what in ("regions", "text")):
        raise CheckpointError(f"{folder}: its embeddings are no finite numbers; {again}")
    if found["regions"].shape[-1] != found["text"].shape[-1]:
        raise CheckpointError(f"{folder}: its two towers embed in different numbers of dimensions")
    if adopted:
        _compare(folder, found)
    noted = noted or _described(folder, layout, model)
    if to_adapt:
        if kept:
            raise CheckpointError(
                f"{folder}: is a finished pair that was trained on; go on from the one that it "
                "came from"
            )
        for name in pair_files(folder):  # they are copied when all is trained
            try:
                file_in(folder, name)
            except ValueError as error:
                raise CheckpointError(str(error)) from None
        model = FinishedPair(parts, title, adapted=True)
    model.noted, model.folder = noted, folder
    model.fingerprint = pair_fingerprint(folder)
    return model


def _parts(folder: Path, layout: str) -> Parts:
    """The towers of a folder, and what goes with them, that can work together."""
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


def save_pair(folder: Path, model: FinishedPair, training: Mapping[str, Any] | None = None) -> None:
    """Write a finished pair with the files that it came from, and what was trained on top.

    ``training`` goes into ``training.json``, as of a checkpoint.
    """
    assert model.folder is not None  # noqa: S101 - it was loaded
    said = {**model.noted, "scale": float(model.gamma_sq.detach())}
    with replacing_folder(folder, sums=False) as made:
        cards = [path for pattern in CARDS for path in model.folder.glob(pattern)]
        plain = [path.name for path in cards if path.is_file() and not path.is_symlink()]
        copy_files(model.folder, [*pair_files(model.folder), *plain], made)
        if model.adapted:
            said["continued"] = {"aggregator": "global"}
            save_file(on_cpu(model.state_dict()), made / ADAPTERS, metadata={"format": "pt"})
        was_training = model.training
        found = {key: np.ascontiguousarray(x) for key, x in _answers(model.eval()).items()}
        model.train(was_training)
        save_arrays(found, made / GOLDEN)
        write_json(made / ADOPTED, said)
        write_sums(made)
        if training is not None:
            write_json(made / TRAINING, dict(training))
    model.fingerprint = pair_fingerprint(folder)


def _answers(model: FinishedPair) -> dict[str, Any]:
    """What a pair makes of the golden image and sentence."""
    square = model.spec.preprocessing.square(draw())
    pixels = torch.from_numpy(model.spec.preprocessing.normalize(square))
    with torch.inference_mode():
        regions = model.embed_images(pixels[None].to(model.device))[0].float().cpu()
    text = model.embed_sentences([SENTENCE])[0].cpu()
    return {"square": square, "regions": regions.numpy(), "text": text.numpy()}


def _described(folder: Path, layout: str, model: FinishedPair) -> dict[str, Any]:
    """What is noted of a pair in a copy of its folder."""
    spec = model.spec
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": folder.resolve().name,
        "layout": layout,
        "licence": licence_of(folder),
        "dimension": spec.dimension,
        "max_tokens": spec.max_tokens,
        "regions": model.has_regions,
        "preprocessing": spec.preprocessing.to_dict(),
        "backbone": None,
    }


def _compare(folder: Path, found: Mapping[str, Any]) -> None:
    kept = {name: x.numpy() for name, x in read_safetensors(folder / GOLDEN).items()}
    check_square(str(folder), found["square"], kept["square"])
    for what in ("regions", "text"):
        old, new = kept[what], found[what]
        off = float(np.abs(old - new).max()) if old.shape == new.shape else math.inf
        if not off <= TOLERANCE:
            raise CheckpointError(
                f"{folder}: its {what} of the golden example differ by {off:.2g} from those of "
                f"when the copy was made ({TOLERANCE:.0e} is rounding): its weights, mean, std, "
                "pooling or tokenizer, or the version of transformers differs"
            )
