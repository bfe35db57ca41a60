"""Check that the files of a folder are still what was written, by every digest and checksum."""

import os
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from cxrtext.errors import CxrTextError, DataError
from cxrtext.files import (
    DAMAGED_ARCHIVE,
    SEAL,
    SUMS,
    file_problems,
    is_as_named,
    read_sealed,
    write_sums,
)
from cxrtext.files.digests import read_sums
from cxrtext.files.signed_log import faults, key_of
from cxrtext.files.sqlite import check_pages, open_database
from cxrtext.models.folders import has_model

Check = Callable[[Path], object]
"""Takes a file, or a folder's catalogue; returns what is wrong, a line each, or raises."""

MAX_JSON = 64 * 2**20  # bytes; larger JSON files are not searched for a seal


@dataclass(slots=True)
class FilesReport:
    folder: Path
    # files compared with a digest or a checksum, by kind
    checked: Counter[str] = field(default_factory=Counter)
    unchecked: int = 0  # files without one: original images, pages, figures, the user's own
    problems: list[str] = field(default_factory=list)  # a line each
    unfinished: int = 0  # half-written files of killed runs; the next run removes them


def check_files(folder: Path) -> FilesReport:
    """Compare every file below a folder with its digest or checksums."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    report, listed = FilesReport(folder), set[Path]()
    paths = list(_files(folder))
    for path in paths:
        if path.name == SUMS:
            names = _listed(path.parent)
            listed |= {path, *(path.parent / name for name in names)}
            report.checked[f"listed in {SUMS}"] += len(names)
            report.problems += file_problems(path.parent)
    for path in paths:
        if path in listed:
            continue
        if path.name.startswith(".") and ".tmp" in path.name:
            report.unfinished += 1
            continue
        kind, check = _kind_of(path)
        if check is None:
            report.unchecked += 1
        else:
            report.checked[kind] += 1
            report.problems += _problems(path, check)
    return report


def accept_changes(folder: Path) -> list[str]:
    """List the files of a data folder as they are now, after its user changed them.

    Returns the files that changed or are gone.  A model is refused, because its digests vouch for
    it.
    """
    try:
        before = read_sums(folder)
    except (OSError, ValueError):
        before = {}
    if before is None:
        raise DataError(f"{folder}: has no {SUMS}; there is nothing to accept")
    if has_model(folder):
        raise DataError(
            f"{folder}: is a model; with changed files it is not that model, and is not accepted"
        )
    names = before or [p.name for p in folder.iterdir() if p.is_file() and p.name != SUMS]
    write_sums(folder, [name for name in names if (folder / name).is_file()])
    after = read_sums(folder) or {}
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders.sort()
        paths = (Path(root) / name for name in sorted(names))
        yield from (path for path in paths if path.is_file())  # reading a pipe would wait


def _listed(folder: Path) -> list[str]:
    try:
        return list(read_sums(folder) or {})
    except (OSError, ValueError):
        return []


def _problems(path: Path, check: Check) -> list[str]:
    try:
        problems = check(path)
        return problems if isinstance(problems, list) else []
    except CxrTextError as error:
        return [str(error)]
    except (OSError, ValueError, sqlite3.DatabaseError) as error:
        return [f"{path}: {error}"]


def _kind_of(path: Path) -> tuple[str, Check | None]:
    """The kind of a file, and its check; None for files without a digest."""
    name, suffix = path.name, path.suffix.lower()
    if name.endswith(".meta.json"):
        return "scored sentences", _scored_sentences
    if name == "features.json":
        return "features", _features
    if suffix == ".json":
        return "notes", read_sealed if _is_sealed(path) else None
    if suffix == ".pt" and path.stem.startswith(("step-", "state-")):
        return "training states", _named
    if path.suffix == ".safetensors" and path.stem in ("reference", "familiar", "heads", "encoder"):
        return "tensors", _tensors
    if suffix == ".jsonl" and path.with_suffix(".key").is_file():
        return "signed logs", _signed_log
    if suffix == ".npz":
        return "arrays", _archive
    if name == "catalogue.sqlite":
        return "indexes", _index
    if suffix == ".sqlite":
        return "databases", _database
    return "", None


def _database(path: Path) -> None:
    with closing(open_database(path, write=False)) as database:
        check_pages(database)


def _scored_sentences(path: Path) -> None:
    from cxrtext.records.sentences import META, check_notes

    table = path.with_name(path.name.removesuffix(META))
    if not table.is_file():
        raise DataError(f"{table}: is missing, but its notes are there ({path.name})")
    check_notes(table)


def _is_sealed(path: Path) -> bool:
    return path.stat().st_size <= MAX_JSON and f'"{SEAL}"'.encode() in path.read_bytes()


def _features(path: Path) -> None:
    from cxrtext.models.features import open_features

    open_features(path.parent, check=True)


def _named(path: Path) -> None:
    if not is_as_named(path):
        raise ValueError("is not what was written: its digest differs")


def _signed_log(path: Path) -> list[str]:
    return [f"{path}: {fault}" for fault in faults(path, key_of(path.with_suffix(".key")))]


def _tensors(path: Path) -> None:
    from cxrtext.models.weight_files import load_sealed

    load_sealed(path)


def _archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except DAMAGED_ARCHIVE as error:
        raise ValueError(f"is damaged ({error})") from None
    if bad:
        raise ValueError(f"its part '{bad}' is damaged")


def _index(path: Path) -> list[str]:
    from cxrtext.index.store.catalogue import EMPTY, Catalogue
    from cxrtext.index.store.check import check_index

    with Catalogue(path) as catalogue:
        lines = check_index(path.parent, catalogue)
    return [f"{path.parent}: {line}" for line in lines if line != EMPTY]
