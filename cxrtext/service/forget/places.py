"""Find the places that keep something about patients: walk folders, and sort files by kind."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cxrtext.files import open_regular, sweep
from cxrtext.images.cache_store import PLACES
from cxrtext.index.backup import NOTE as BACKUP
from cxrtext.index.store.catalogue import CATALOGUE
from cxrtext.models.folders import TOKENIZER_FILES
from cxrtext.service.forget.stores import DECODED, OF_ENCODER, Store, kind_of
from cxrtext.service.forget.tables import ENDINGS, ending_of, is_table

PICTURES = (".png", ".jpg", ".jpeg", ".dcm", "")
JOB = "job.json"
JOB_FORMAT, JOB_HEAD = b'"cxrtext job"', 256
"""The plan of an archive job, and the text in its first bytes; from `cxrtext.jobs.plan`, which this
layer may not import."""

TENSORS = (".safetensors", ".pt", ".npz", ".vectors", ".faiss", ".u8", ".f16")
"""Endings of files with only numbers, which cannot hold an id."""
_LOCKED = re.compile(r"(regions|sentences)(-[0-9a-f]{16}){1,2}\.f16")
"""Names of files of `cxrtext.training.data.locked_features`."""


@dataclass(slots=True)
class KnownFiles:
    """The files below some folders, by kind."""

    roots: list[Path]
    indexes: list[Path] = field(default_factory=list)  # their folders
    stores: list[tuple[Store, Path]] = field(default_factory=list)
    caches: list[tuple[str, Path]] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    models: list[Path] = field(default_factory=list)  # folders with a tokenizer
    backups: list[Path] = field(default_factory=list)  # their folders
    jobs: list[Path] = field(default_factory=list)  # their folders
    others: list[Path] = field(default_factory=list)

    def inside(self, path: Path) -> bool:
        """Whether a file is below one of the folders, after following all links."""
        return any(path.resolve().is_relative_to(root) for root in self.roots)


def is_manifest(path: Path) -> bool:
    """Whether a table is a manifest; it says who the others are about, so it is changed last."""
    return path.stem == "manifest"


def sweep_below(folders: list[Path]) -> None:
    """Remove the half-written files of killed writers in these folders and below."""
    for folder in folders:
        for home, _, _ in os.walk(folder.resolve()):
            sweep(Path(home))


def find_places(folders: list[Path], progress: Callable[[int], None]) -> KnownFiles:
    """Walk folders, not following links to folders; ``progress`` gets the number of files seen."""
    files = KnownFiles([folder.resolve() for folder in folders])
    seen: set[str] = set()
    for root in files.roots:
        for home, subfolders, names in os.walk(root):
            subfolders.sort()
            folder = Path(home)
            if home in seen:
                subfolders.clear()
                continue
            seen.add(home)
            if BACKUP in names:
                files.backups.append(folder)
                subfolders.clear()
                continue
            if (folder / JOB).is_file() and ("shards" in subfolders or _is_job(folder / JOB)):
                files.jobs.append(folder)
                subfolders.clear()
                continue
            if CATALOGUE in names:
                files.indexes.append(folder)
            if any(name in names for name in TOKENIZER_FILES):
                files.models.append(folder)
            for name in sorted(names):
                _put(files, folder / name, is_index=CATALOGUE in names)
            progress(sum(len(getattr(files, kind)) for kind in ("tables", "pictures", "others")))
    return files


def _is_job(path: Path) -> bool:
    with open_regular(path) as handle:
        return JOB_FORMAT in handle.read(JOB_HEAD)


def _put(files: KnownFiles, path: Path, *, is_index: bool) -> None:
    name, suffix = path.name, path.suffix.lower()
    if not path.is_file():  # a broken link, or a pipe, which would block
        return
    if is_index and name.startswith((CATALOGUE, "index.json")):
        return
    if suffix == PLACES:
        files.caches.append((DECODED, path))
    elif suffix in (".sqlite", ".partial", ".db") and (kind := kind_of(path)) is not None:
        if isinstance(kind, Store):
            files.stores.append((kind, path))
        else:
            files.caches.append((kind, path))
    elif _LOCKED.fullmatch(name):
        files.caches.append((OF_ENCODER, path))
    elif ending_of(path) in ENDINGS and is_table(path):
        files.tables.append(path)
    elif suffix in PICTURES and _is_picture(path):
        files.pictures.append(path)
    elif suffix == ".txt":
        files.texts.append(path)
    elif suffix not in TENSORS:
        files.others.append(path)


def _is_picture(path: Path) -> bool:
    if path.suffix:
        return True
    try:
        with path.open("rb") as handle:
            return handle.read(132)[128:] == b"DICM"
    except OSError:
        return False
