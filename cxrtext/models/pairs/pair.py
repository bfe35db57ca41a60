"""A finished pair of towers as a model: loaded, compared with its digests and its golden answers.

Its folder becomes a checkpoint by what is written into it when it is loaded first: what it is
(``cxrtext.json``), what it makes of a drawn image and a sentence (``golden.safetensors``), and the
digests of its files (``SHA256SUMS``).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.files import SUMS, check_folder, replacing_folder, sums_of, write_json, write_sums
from cxrtext.files.digests import read_sums
from cxrtext.images.gray import Bytes
from cxrtext.models.backbones.backbone import licence_of
from cxrtext.models.backbones.golden import LEVELS, draw
from cxrtext.models.folders import (
    ADOPTED,
    TRAINING,
    layout_of,
    pair_fingerprint,
    read_checkpoint_config,
)
from cxrtext.models.image_text import FINISHED, ImageTextModel, ModelSpec
from cxrtext.models.pairs.layouts import LAYOUTS, Parts
from cxrtext.models.pairs.towers import Adapter
from cxrtext.models.similarity import region_scores
from cxrtext.models.weight_files import misfit, on_cpu

FORMAT, VERSION = "cxrtext finished pair", 1
GOLDEN, ADAPTERS = "golden.safetensors", "adapters.safetensors"
SENTENCE = "Small left pleural effusion. No pneumothorax."
TOLERANCE = 1e-3
"""Largest difference of a unit vector's numbers that rounding makes, on other processors."""


@dataclass(frozen=True, slots=True)
class FinishedSpec(ModelSpec):
    """What a finished pair is."""

    title: str = ""

    @property
    def image_title(self) -> str:
        return self.title


@dataclass(frozen=True, slots=True)
class Continued:
    """How a finished pair is trained on: its towers stay, and each gets an adapter.

    Of a pair with patches the similarity may be another one, as in :class:`ModelSpec`; γ² is where
    a pair that says none begins.
    """

    aggregator: str = "global"
    lam: float = 10.0
    query: str = "none"
    gamma_sq: float = 14.0


class FinishedPair(ImageTextModel):
    """Two towers of elsewhere; its score is the cosine of their global embeddings."""

    def __init__(self, parts: Parts, title: str, continued: Continued | None = None) -> None:
        own = continued if continued and parts.images.has_patches else Continued()
        spec = FinishedSpec(
            image=FINISHED,
            text=parts.text,
            dimension=dimension_of(parts),
            aggregator=own.aggregator,
            lam=own.lam,
            query=own.query,
            max_tokens=parts.max_tokens,
            preprocessing=parts.preprocessing,
            title=title,
        )
        super().__init__(spec, parts.tokenizer, parts.images, parts.texts)
        scale = continued.gamma_sq if continued and parts.scale == 1.0 else parts.scale
        with torch.no_grad():  # no cap unless it is trained
            self.log_gamma_sq.fill_(math.log(scale))
        self.continued = continued
        if continued is None:
            self.requires_grad_(requires_grad=False)
            return
        parts.images.are_units = own.aggregator != "global"
        parts.images.adapter, parts.texts.adapter = Adapter(spec.dimension), Adapter(spec.dimension)
        self.bound()

    @property
    def has_regions(self) -> bool:
        return bool(self.image_encoder.has_patches)

    def maps(self, regions: Tensor, texts: Tensor) -> Tensor:
        return region_scores(F.normalize(regions.float(), dim=-1), texts)


def dimension_of(parts: Parts) -> int:
    """D, by what the text tower makes of nothing but its first piece."""
    with torch.inference_mode():
        ids = torch.zeros(1, 2, dtype=torch.long)
        return int(parts.texts(ids, torch.ones_like(ids)).shape[-1])


def load_pair(
    folder: Path, device: str = "cpu", *, continued: Continued | None = None
) -> FinishedPair:
    """Load the finished pair of a folder (CheckpointError); the first time it is also noted there.

    Later its files must have the digests, and its towers give the vectors, of the first time.
    ``continued`` is how a training goes on from a pair that was not trained on.
    """
    layout = layout_of(folder)
    if layout is None:
        raise CheckpointError(f"{folder}: holds no finished pair that is known")
    adopted = (folder / ADOPTED).is_file()
    again = "copy the folder again"
    if not (folder / ADAPTERS).is_file():
        again += f", or take {ADOPTED}, {GOLDEN} and {SUMS} away, which are written anew"
    elif not adopted:
        raise CheckpointError(f"{folder}: has {ADAPTERS} and no {ADOPTED}; {again}")
    if adopted:
        check_folder(folder, (ADOPTED, GOLDEN), CheckpointError, again)
    parts = LAYOUTS[layout](folder)
    noted = read_checkpoint_config(folder) if adopted else {}
    if adopted and (noted.get("format"), noted.get("version")) != (FORMAT, VERSION):
        raise CheckpointError(f"{folder / ADOPTED}: of another version of cxrtext; {again}")
    name = noted.get("name", folder.resolve().name)
    kept = noted.get("continued")
    model = FinishedPair(parts, f"{name} ({layout})", kept and Continued(**kept)).eval()
    if kept:
        _load_adapters(folder / ADAPTERS, model)
    found = _answers(model)
    if adopted:
        _compare(folder, found)
    else:
        _adopt(folder, layout, model, found, parts)
    if continued is not None:
        if kept:
            raise CheckpointError(
                f"{folder}: is a finished pair that was trained on; go on from the one that it "
                "came from"
            )
        model = FinishedPair(LAYOUTS[layout](folder), model.spec.image_title, continued)
    model.fingerprint = pair_fingerprint(folder)
    model.folder = folder
    return model.to(device)


def _load_adapters(path: Path, model: FinishedPair) -> None:
    from safetensors.torch import load_file

    tensors = load_file(path)
    if fault := misfit(tensors, model.state_dict()):
        raise CheckpointError(f"{path}: {fault}; copy the folder again")
    model.load_state_dict(tensors)


def save_continued(folder: Path, model: FinishedPair, training: Mapping[str, Any]) -> None:
    """Write a finished pair that is trained on, with the files that it came from.

    ``training`` goes into ``training.json``, as of a checkpoint.
    """
    from safetensors.torch import save_file

    assert model.folder is not None  # noqa: S101 - it was loaded
    assert model.continued is not None  # noqa: S101 - only such are trained
    names = [name for name in read_sums(model.folder) or {} if name not in (GOLDEN, ADOPTED)]
    noted = read_checkpoint_config(model.folder) | {"continued": asdict(model.continued)}
    with replacing_folder(folder, sums=False) as made:
        for name in names:
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(model.folder / name, made / name)
        save_file(on_cpu(model.state_dict()), made / ADAPTERS, metadata={"format": "pt"})
        was_training = model.training
        _note(made, noted | {"scale": float(model.gamma_sq.detach())}, _answers(model.eval()))
        model.train(was_training)
        write_sums(made)
        write_json(made / TRAINING, dict(training))
    model.fingerprint = pair_fingerprint(folder)


def _note(folder: Path, said: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    from safetensors.numpy import save_file

    save_file({key: np.ascontiguousarray(x) for key, x in found.items()}, folder / GOLDEN)
    write_json(folder / ADOPTED, dict(said))


def _answers(model: FinishedPair) -> dict[str, Any]:
    """What a pair makes of the golden image and sentence."""
    square = model.spec.preprocessing.square(draw())
    pixels = torch.from_numpy(model.spec.preprocessing.normalize(square))
    with torch.inference_mode():
        regions = model.embed_images(pixels[None].to(model.device))[0].float().cpu()
    text = model.embed_sentences([SENTENCE])[0].cpu()
    return {"square": square, "regions": regions.numpy(), "text": text.numpy()}


def _adopt(
    folder: Path, layout: str, model: FinishedPair, found: Mapping[str, Any], parts: Parts
) -> None:
    spec = model.spec
    said = {
        "format": FORMAT,
        "version": VERSION,
        "name": folder.resolve().name,
        "layout": layout,
        "licence": licence_of(folder),
        "dimension": spec.dimension,
        "max_tokens": spec.max_tokens,
        "regions": model.has_regions,
        "scale": parts.scale,
        "bias": parts.bias,
        "preprocessing": spec.preprocessing.to_dict(),
        "backbone": None,
    }
    names = [name for name in sums_of(folder) if not name.startswith(".")]
    try:
        _note(folder, said, found)
        write_sums(folder, [*names, GOLDEN, ADOPTED])
    except OSError as error:
        (folder / ADOPTED).unlink(missing_ok=True)
        raise CheckpointError(
            f"{folder}: cannot be written to ({error.strerror}), and digests and a golden example "
            "are kept there; copy the folder to where it can be"
        ) from None


def _compare(folder: Path, found: Mapping[str, Any]) -> None:
    from safetensors.numpy import load_file

    kept = load_file(folder / GOLDEN)
    square: Bytes = kept["square"]
    here: Bytes = found["square"]
    if square.shape != here.shape or np.abs(square.astype(float) - here).mean() > LEVELS:
        raise CheckpointError(
            f"{folder}: the golden image is resized otherwise than when the pair was loaded first: "
            "its size or filter, or the version of Pillow differs"
        )
    for what in ("regions", "text"):
        old, new = kept[what], found[what]
        off = float(np.abs(old - new).max()) if old.shape == new.shape else math.inf
        if not off <= TOLERANCE:
            raise CheckpointError(
                f"{folder}: its {what} of the golden example differ by {off:.2g} from those of "
                f"when it was loaded first ({TOLERANCE:.0e} is rounding): its weights, mean, std, "
                "pooling or tokenizer, or the version of transformers differs"
            )
