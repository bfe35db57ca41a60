"""Folders of models, from this program and the hub; checked without torch, to refuse them at once.

A hub name is looked up in the local cache, and on the hub only if necessary.  It may have a
revision, ``owner/model@revision``: a branch, a tag or a commit; the default is in ``PINNED``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, CxrTextError, HubError, line_of
from cxrtext.files import SUMS, read_regular, sha256
from cxrtext.files.digests import read_sums

FORMAT = "cxrtext image-text model"
VERSION = 1
CONFIG, WEIGHTS, TRAINING = "config.json", "model.safetensors", "training.json"
"""Files of a checkpoint."""
ADOPTED, GOLDEN = "cxrtext.json", "golden.safetensors"
"""Files in a copy of a finished pair: its description, and its embeddings of a drawn image and a
sentence."""
OPEN_CLIP, BIOVIL, OPENAI, CXR_CLIP = "open_clip_config.json", "biovil*.pt", "*.pt", "*.tar"
"""A file, and patterns of weight files, that distinguish the layouts of finished pairs."""
KEPT = (
    *("calibration.json", "verdicts.json", "how-good.json"),
    *("familiar.safetensors", "heads.safetensors", "reference.safetensors"),
)
"""Files beside a checkpoint's own, each bound to the model by its fingerprint."""
BACKBONE_FOLDER = "backbone"  # the folder in a checkpoint that may have its backbone
BACKBONES_VARIABLE = "CXRTEXT_BACKBONES"
"""Environment variable: folders to look for backbones in, separated as in PATH."""
SAFE_WEIGHTS, PICKLED_WEIGHTS = "model.safetensors", "pytorch_model.bin"
"""A language model has one of these files."""
DEFAULT_MODEL = "microsoft/BiomedVLP-CXR-BERT-general"
"""CXR-BERT's masked language model, on the hub or in its local cache."""

PINNED = {
    DEFAULT_MODEL: "main",
    "microsoft/BiomedVLP-CXR-BERT-specialized": "v1.1",
}
"""Revisions of known models; "main" for any other.  v1.1 is the tag that its authors' own library
uses; no tag is known for the general model."""

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")
"""A folder with a tokenizer has one of these files, which decides its ids."""
PAIR_FILES = (
    *(CONFIG, OPEN_CLIP, "preprocessor_config.json", "processor_config.json"),
    *(*TOKENIZER_FILES, "tokenizer_config.json", "added_tokens.json"),
    *("spiece.model", SAFE_WEIGHTS, PICKLED_WEIGHTS),
    *("open_clip_model.safetensors", "open_clip_pytorch_model.bin", OPENAI, CXR_CLIP),
)
"""Patterns of all files that are read from a finished pair's folder."""
CARDS = ("README.md*", "LICENSE*")  # files that name a licence
POOLING = "1_Pooling/config.json"  # how a sentence-transformers folder pools states
TEXT_FILES = (CONFIG, *TOKENIZER_FILES, "tokenizer_config.json", "added_tokens.json", POOLING)
VISION_FILES = (CONFIG, "preprocessor_config.json", "processor_config.json", *CARDS)
HUB_TIMEOUT = 10.0  # seconds to wait for the hub
TRAIN = "cxrtext pretrain-text REPORTS --out DIR"  # the command that makes a language model


_ID = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
# No part of a revision starts with a dot: the local cache makes paths of them.
_HUB_NAME = re.compile(rf"(?P<id>{_ID})(?:@(?P<revision>\w[\w.-]*(?:/\w[\w.-]*)*))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def read_training(folder: Path) -> dict[str, Any]:
    """A checkpoint's notes on its training; empty if there are no readable ones."""
    try:
        return read_object(folder / TRAINING)
    except CheckpointError:
        return {}


def find_model_folder(name_or_path: str | Path, *, offline: bool = False) -> Path:
    """The local folder of a model, fetched from the hub if it is not here yet.

    ``offline`` never uses the network; HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE do the same.
    """
    folder = Path(name_or_path)
    if folder.is_dir():
        return folder
    check_model_name(name_or_path)
    instead = f"train a model on your reports: {TRAIN}"
    return _snapshot(str(name_or_path), TEXT_FILES, TOKENIZER_FILES, instead, offline=offline)


def find_vision_folder(name_or_path: str, *, offline: bool = False) -> Path:
    """The local folder of a vision model, like :func:`find_model_folder`."""
    folder = Path(name_or_path)
    if folder.is_dir():
        return folder
    if not is_hub_name(name_or_path):
        raise CheckpointError(
            f"{name_or_path}: no such folder, and not a hub name such as owner/model; "
            "'cxrtext encoders' lists some"
        )
    instead = "'cxrtext encoders' says where to get one without a network"
    return _snapshot(name_or_path, VISION_FILES, VISION_FILES[1:3], instead, offline=offline)


def is_hub_name(text: str) -> bool:
    """Whether a text has the form ``owner/model`` or ``owner/model@revision``."""
    return _HUB_NAME.fullmatch(text) is not None


def _snapshot(
    name: str, files: Sequence[str], one_of: Sequence[str], instead: str, *, offline: bool
) -> Path:
    """A snapshot from the local cache, or else from the hub (HubError).

    ``files`` are patterns of what is fetched besides weights; a complete snapshot has ``one_of``
    its files.  ``instead`` says what else to do.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    match = _HUB_NAME.fullmatch(name)
    assert match is not None  # noqa: S101 - checked by the callers
    repository = match["id"]
    revision = match["revision"] or PINNED.get(repository, "main")
    needed = (CONFIG,), one_of, (SAFE_WEIGHTS, PICKLED_WEIGHTS)
    with suppress(LocalEntryNotFoundError, OSError, ValueError):
        folder = Path(snapshot_download(repository, revision=revision, local_files_only=True))
        if all(any((folder / name).is_file() for name in names) for names in needed):
            return folder
    switches = (os.environ.get(key, "") for key in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    is_offline = offline or any(value.upper() in ("1", "ON", "YES", "TRUE") for value in switches)
    why = "the hub may not be asked (offline)"
    if not (is_offline or constants.HF_HUB_OFFLINE):
        disable_progress_bars()
        try:
            # A single request first: the download itself would retry for minutes.
            info = HfApi().model_info(repository, revision=revision, timeout=HUB_TIMEOUT)
            names = {entry.rfilename for entry in info.siblings or []}
            weights = [name for name in (SAFE_WEIGHTS, PICKLED_WEIGHTS) if name in names][:1]
            if weights:
                fetched = snapshot_download(
                    repository,
                    revision=revision,
                    allow_patterns=[*files, *weights],
                    etag_timeout=HUB_TIMEOUT,
                )
                return Path(fetched)
        # Its transport has had three families of errors so far.
        except Exception as error:  # noqa: BLE001
            why = f"the hub did not give it ({type(error).__name__})"
        else:
            raise CheckpointError(
                f"{repository}: has no {SAFE_WEIGHTS} and no {PICKLED_WEIGHTS}; a finished pair is "
                "given to 'cxrtext fit' as a folder, with --model"
            )
    raise HubError(
        f"model '{repository}' at revision {revision} is not here, and {why}.\n"
        f"Download its folder where there is access and pass the path, or {instead}"
    )


def check_model_name(name_or_path: str | Path) -> None:
    """Refuse anything but a language model's folder or a hub id; nothing is fetched."""
    folder = Path(name_or_path)
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise CheckpointError(
                f"{folder}: not a language model: it has no {CONFIG}; train one: {TRAIN}"
            )
        if not any((folder / name).is_file() for name in (SAFE_WEIGHTS, PICKLED_WEIGHTS)):
            raise CheckpointError(f"{folder}: no {SAFE_WEIGHTS} and no {PICKLED_WEIGHTS}")
    elif isinstance(name_or_path, Path) or not _HUB_NAME.fullmatch(name_or_path):
        raise CheckpointError(f"{name_or_path}: no such model folder; train one: {TRAIN}")


def commit_of(folder: Path) -> str | None:
    """The commit of a snapshot in the hub's cache; None for any other folder."""
    is_snapshot = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if is_snapshot else None


def read_json(path: Path) -> Any:
    """Parse a JSON file in a model's folder (CheckpointError)."""
    try:
        return json.loads(read_regular(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise CheckpointError(f"{path}: not a readable JSON file") from None


def read_object(path: Path) -> dict[str, Any]:
    """Like :func:`read_json`, for a file that must have an object."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object; copy it again")
    return value


def read_checkpoint_config(folder: Path) -> dict[str, Any]:
    """A checkpoint's ``config.json``, with its fields still unchecked.

    For a copy of a finished pair, the notes made with the copy.
    """
    if (folder / ADOPTED).is_file():
        return read_object(folder / ADOPTED)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such checkpoint folder; make one with 'cxrtext train'")
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: not a cxrtext checkpoint: has no {CONFIG}{checkpoints_in(folder)}"
        )
    config = read_object(path)
    if config.get("format") != FORMAT:
        raise CheckpointError(
            f"{folder}: not a cxrtext checkpoint; give the folder 'checkpoint' that "
            "'cxrtext train' writes"
        )
    if config.get("version") != VERSION:
        raise CheckpointError(
            f"{path}: written by another version of cxrtext (format {config.get('version')}, "
            f"this one reads {VERSION})"
        )
    return config


def check_checkpoint(folder: Path) -> None:
    """Refuse a folder that is not a whole checkpoint or a finished pair (CheckpointError)."""
    if layout_of(folder) is not None:
        return
    read_checkpoint_config(folder)
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"{folder}: has no {WEIGHTS}; copy the checkpoint again")


def layout_of(folder: Path) -> str | None:
    """The layout of a finished pair's folder; None for a checkpoint and anything else."""
    try:
        config = read_object(folder / CONFIG)
    except CheckpointError:
        config = {}
    if config.get("format") == FORMAT:
        return None
    if (folder / OPEN_CLIP).is_file():
        return "open_clip"
    if config and any(folder.glob(BIOVIL)):
        return "biovil"
    if any(folder.glob(CXR_CLIP)):
        return "cxr-clip"
    if config.get("model_type") in ("clip", "siglip"):
        return str(config["model_type"])
    return "openai" if not config and any(folder.glob(OPENAI)) else None


def has_model(folder: Path) -> bool:
    """Whether a folder has a checkpoint or a finished pair, whole or not."""
    return (folder / CONFIG).is_file() or layout_of(folder) is not None


def pair_files(folder: Path) -> list[str]:
    """The files read from a finished pair's folder, in order."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if any(fnmatchcase(name, one) for one in PAIR_FILES)]


def model_files(folder: Path) -> list[str]:
    """The files of a model's folder that belong into a copy.

    They include its backbone's, and those that training and ``cxrtext calibrate`` keep there.
    """
    kept = [name for name in KEPT if (folder / name).exists()]
    if (listed := read_sums(folder)) is None:
        return [*pair_files(folder), *kept]
    backbone = sorted(path.name for path in (folder / BACKBONE_FOLDER).glob("*"))
    return [*listed, SUMS, *kept, *(f"{BACKBONE_FOLDER}/{name}" for name in backbone)]


def pair_fingerprint(folder: Path) -> str:
    """SHA-256 over the files that decide what a finished pair computes; the same for its copies.

    For a copy made by cxrtext, the digests come from its list.
    """
    names = pair_files(folder)
    try:
        listed = (read_sums(folder) or {}) if (folder / ADOPTED).is_file() else {}
        sums = {name: listed.get(name) or sha256(folder / name) for name in names}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}: {error}; copy the folder again") from None
    return hashlib.sha256(json.dumps(sums).encode()).hexdigest()


@contextmanager
def foreign(folder: Path) -> Iterator[None]:
    """Turn any error from reading a folder into a CheckpointError with one line.

    Libraries that build networks and tokenizers may raise anything for unexpected numbers.
    """
    try:
        yield
    except CxrTextError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        raise CheckpointError(
            f"{folder}: not in the form that the model's authors save ({type(error).__name__}: "
            f"{line_of(error)}); copy it again"
        ) from None


def checkpoints_in(folder: Path) -> str:
    """The end of an error message: a checkpoint inside the folder, if there is one."""
    candidates = [one.parent for depth in ("*", "*/*") for one in folder.glob(f"{depth}/{CONFIG}")]
    below = []
    for inside in candidates:
        with suppress(OSError):  # other models have a config.json too
            below += [inside] if FORMAT.encode() in read_regular(inside / CONFIG) else []
    # "checkpoint-best" comes after "checkpoint".
    return f"; give one of those in it, such as {max(below)}" if below else ""


def backbone_elsewhere(folder: Path) -> str | None:
    """A warning for copying a checkpoint without its backbone in the folder, or None."""
    if layout_of(folder) is not None:  # a pair has both towers in its folder
        return None
    named = read_checkpoint_config(folder).get("backbone")
    if not isinstance(named, dict) or (folder / BACKBONE_FOLDER).is_dir():
        return None
    return (
        f"the model's backbone {named.get('name')} ({str(named.get('digest'))[:12]}) is not in "
        f"{folder} and was not copied: put its folder to {folder / BACKBONE_FOLDER} and copy "
        f"again, or name it in {BACKBONES_VARIABLE} where the copy is used"
    )
