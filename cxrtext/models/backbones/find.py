"""A checkpoint's backbone, which it names and does not hold: found again by its digest."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from cxrtext.errors import CheckpointError
from cxrtext.models.backbones.backbone import Backbone, Precision, load_backbone, prepared_of
from cxrtext.models.folders import BACKBONE_FOLDER, BACKBONES_VARIABLE, CONFIG

_DIGITS = 12


def find_backbone(
    note: Mapping[str, Any],
    checkpoint: Path | None,
    *,
    device: str | torch.device = "cpu",
    precision: Precision = "float32",
) -> Backbone:
    """Load the backbone that was noted (:meth:`Backbone.note`), wherever it lies now.

    Looked for in ``backbone`` of the checkpoint, in the folder where it was, and in the folders
    that CXRTEXT_BACKBONES lists and those in them.  A folder is the right one if its digest is,
    whatever its name; weights are read only where all else agrees.

    Raises:
        CheckpointError: It is in none of them, or the note is damaged.
        ConfigError: As of :func:`load_backbone`.
    """
    name, digest, size = (note.get(key) for key in ("name", "digest", "size"))
    if not (isinstance(name, str) and isinstance(digest, str) and isinstance(size, int)):
        raise CheckpointError(
            f"{checkpoint or 'the features'}: the note of its backbone is damaged"
        )
    refused: list[str] = []
    looked: list[str] = []
    seen: set[Path] = set()
    for folder in _candidates(note, checkpoint):
        if (place := folder.resolve()) in seen:
            continue
        seen.add(place)
        looked.append(str(folder))
        if not (folder / CONFIG).is_file():
            continue
        fault = _unlike(folder, note, size)
        if not fault:
            backbone = load_backbone(folder, size=size, device=device, precision=precision)
            if backbone.digest == digest:
                return backbone
            fault = f"its digest is {backbone.digest[:_DIGITS]}…: other weights or configuration"
        if folder.name in (name, BACKBONE_FOLDER):
            refused.append(f"{folder} is another: {fault}")
    home = f"copy its folder to {checkpoint / BACKBONE_FOLDER}, or " if checkpoint else ""
    where = "; ".join([*refused, f"looked in {', '.join(looked) or 'no folder'}"])
    raise CheckpointError(
        f"backbone '{name}' (digest {digest[:_DIGITS]}…) is not here; {where}; {home}name the "
        f"folder that holds it in {BACKBONES_VARIABLE}"
    )


def _candidates(note: Mapping[str, Any], checkpoint: Path | None) -> Iterator[Path]:
    """Folders to look in; of those in a listed folder, the ones of the right name first."""
    if checkpoint is not None:
        yield checkpoint / BACKBONE_FOLDER
    if isinstance(note.get("folder"), str) and note["folder"]:
        yield Path(note["folder"])
    for listed in filter(None, os.environ.get(BACKBONES_VARIABLE, "").split(os.pathsep)):
        folder = Path(listed).expanduser()
        yield folder
        try:
            inside = sorted(path for path in folder.iterdir() if path.is_dir())
        except OSError:
            continue
        yield from sorted(inside, key=lambda path: path.name != note["name"])


def _unlike(folder: Path, note: Mapping[str, Any], size: int) -> str:
    """In what a folder differs from the note, as far as small files show it; "" for nothing."""
    try:
        prepared = prepared_of(folder, size)
    except CheckpointError as error:
        return str(error)
    now = {
        **prepared.preprocessing.to_dict(),
        "image_mean": list(prepared.mean),
        "image_std": list(prepared.std),
    }
    noted = {
        **(note.get("preprocessing") or {}),
        "image_mean": note.get("channel_mean"),
        "image_std": note.get("channel_std"),
    }
    for key, value in now.items():
        if value != noted.get(key):
            return f"its images are prepared with {key} {value}, and were with {noted.get(key)}"
    return ""
