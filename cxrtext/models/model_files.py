"""What lies in a model's folder; looked at without torch, so that mistakes are told at once."""

import json
import os
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError

FORMAT = "cxrtext image-text model"
VERSION = 1
CONFIG, WEIGHTS, TRAINING = "config.json", "model.safetensors", "training.json"
"""Files of a checkpoint."""

SAFE_WEIGHTS, PICKLED_WEIGHTS = "model.safetensors", "pytorch_model.bin"
"""Files of which a language model has one."""


def cache_folder() -> Path:
    """Return the folder of this program's own model cache, which need not exist.

    Raises:
        RuntimeError: XDG_CACHE_HOME is not set, and the user has no home.
    """
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else Path.home() / ".cache") / "cxrtext" / "models"


def read_checkpoint_config(folder: Path) -> dict[str, Any]:
    """What a checkpoint's ``config.json`` says, its fields not yet checked.

    Args:
        folder: The checkpoint.

    Raises:
        CheckpointError: There is no such folder, it is no checkpoint of this version, or it has no
            weights.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such checkpoint folder; make one with 'cxrtext train'")
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise CheckpointError(f"{folder}: not a cxrtext checkpoint: {CONFIG}: {reason}") from None
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path}: line {error.lineno}: not JSON ({error.msg})") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
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


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that cannot be a language model's.

    Args:
        folder: A folder that is there.

    Raises:
        CheckpointError: It has no configuration or no weights.
    """
    if not (folder / CONFIG).is_file():
        raise CheckpointError(
            f"{folder}: not a language model: it has no {CONFIG}; train one: "
            "cxrtext pretrain-text REPORTS --out DIR"
        )
    if not any((folder / name).is_file() for name in (SAFE_WEIGHTS, PICKLED_WEIGHTS)):
        raise CheckpointError(f"{folder}: no {SAFE_WEIGHTS} and no {PICKLED_WEIGHTS}")
