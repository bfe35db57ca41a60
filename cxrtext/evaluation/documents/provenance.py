"""Where figures come from: digests of all inputs, versions, machine, command.

Nothing here names a person, a host or a folder: only the last part of every path is kept.
"""

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PureWindowsPath
from typing import Any

from cxrtext.errors import CxrTextError
from cxrtext.evaluation.data import find_table
from cxrtext.files import sha256
from cxrtext.files.digests import read_sums
from cxrtext.models.checkpoint import checkpoint_fingerprint
from cxrtext.models.folders import PINNED, read_checkpoint_config, read_training

PACKAGES = (
    *("cxrtext", "torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy"),
    *("scikit-learn", "pyarrow", "pillow", "pydicom", "pysbd", "imagecodecs", "faiss-cpu"),
    "matplotlib",
)
"""Packages whose versions can change a figure."""
TABLES = ("manifest", "reports", "labels", "boxes")
NO_PATHS = ("best", "validation")
"""Keys of a training's description with names of measures, which may contain a slash."""


def last_part(text: str) -> str:
    """A path without its folders, which may name people; any other text unchanged.

    >>> last_part("/home/someone/runs/a/checkpoint"), last_part("test"), last_part("a/b=1")
    ('checkpoint', 'test', 'b=1')
    """
    if "\\" in text and "/" not in text:
        return PureWindowsPath(text).name or text
    return text.rstrip("/").rpartition("/")[2] if "/" in text else text


def without_paths(value: Any) -> Any:
    """A JSON value with every text cut to its :func:`last_part`.

    Names of measures ("val/loss") and of known language models ("owner/model") stay whole.
    """
    if isinstance(value, Mapping):
        return {
            name: entry if name in NO_PATHS else without_paths(entry)
            for name, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_paths(entry) for entry in value]
    if not isinstance(value, str) or value.partition("@")[0] in PINNED:
        return value
    return last_part(value)


def shown_command(arguments: Sequence[str]) -> list[str]:
    """A command line with only the last part of each path; `evaluate` takes no keys."""
    parted = (argument.rpartition("=") for argument in arguments)
    return [f"{name}{equals}{last_part(value)}" for name, equals, value in parted]


def split_digest(names: Iterable[str], splits: Iterable[str]) -> str:
    """SHA-256 of the sorted lines "image<tab>split", in hexadecimal."""
    return _digest(sorted(f"{name}\t{split}\n" for name, split in zip(names, splits, strict=True)))


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def prompt_facts(prompts: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, Any]:
    """The prompts by finding and side, and a SHA-256 of lines "finding<tab>side<tab>prompt"."""
    lines = [
        f"{name}\t{side}\t{text}\n"
        for name, sides in prompts.items()
        for side in ("positive", "negative")
        for text in sides[side]
    ]
    return {"sha256": _digest(lines), "findings": prompts}


def table_facts(data: Path, boxes: Path | None) -> dict[str, Any]:
    """Name, SHA-256 and size of each table file of a data folder."""
    facts = {}
    for stem in TABLES:
        path = boxes if stem == "boxes" and boxes else find_table(data, stem)
        if path is not None and path.is_file():
            size = path.stat().st_size
            facts[stem] = {"file": path.name, "sha256": sha256(path), "bytes": size}
    return facts


def checkpoint_facts(folder: Path, fingerprint: str) -> dict[str, Any]:
    """A model and its training, or only its name if its folder is gone or has changed."""
    facts: dict[str, Any] = {"name": model_name(folder), "fingerprint": fingerprint}
    try:
        sums = read_sums(folder)
        if not sums or checkpoint_fingerprint(folder, sums) != fingerprint:
            return facts
        config = read_checkpoint_config(folder)
    except (OSError, ValueError, CxrTextError):
        return facts
    facts["files"] = sums
    facts["configuration"] = without_paths(config)
    if training := read_training(folder):
        facts["training"] = without_paths(training)
    return facts


def model_name(folder: Path) -> str:
    """The run and checkpoint of a folder, as in "run/checkpoint-best"."""
    path = folder.resolve()
    return f"{path.parent.name}/{path.name}" if path.name.startswith("checkpoint") else path.name


def versions() -> dict[str, str]:
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def machine(device: str) -> dict[str, Any]:
    """Kernel, architecture, processor and GPU, if one was used; no name, address or user."""
    facts: dict[str, Any] = {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": device,
    }
    if device.startswith("cuda"):
        import torch

        facts["gpu"] = torch.cuda.get_device_name(torch.device(device))
        facts["cuda"] = torch.version.cuda
    return facts


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
