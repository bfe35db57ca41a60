"""Lists of images: read from a set's own files, compared with the official ones by digest."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.formats.openi import split_of
from cxrtext.datasets.importing.reading import find_table, read_rows
from cxrtext.errors import DataError
from cxrtext.evaluation.recipes.recipe import ImageList, KnownList, ListFile, Recipe
from cxrtext.records.decoding import decode
from cxrtext.records.study import none_left_out

ENDINGS = (".png", ".jpg", ".jpeg", ".dcm", ".dicom")


@dataclass(frozen=True, slots=True)
class FoundList:
    """The names of a benchmark's images as the set lists them.

    ``test`` are measured, ``val`` choose thresholds; ``known`` is the official list that the names
    are, or None.
    """

    where: str
    names: frozenset[str]
    test: frozenset[str]
    val: frozenset[str]
    known: KnownList | None

    @property
    def wanted(self) -> frozenset[str]:
        return self.test | self.val


def name_of(kind: str, path: str) -> str:
    """What stands for an image in a list; endings are in small letters, as in official lists."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    if kind == "tail":
        return "/".join(parts[-3:])
    name = parts[-1]
    ending = next((end for end in ENDINGS if name.lower().endswith(end)), "")
    stem = name[: len(name) - len(ending)]
    return stem if kind == "stem" else stem + ending


def digest_of_names(names: Iterable[str]) -> str:
    """SHA-256 of the distinct names, sorted by their code points, with a line feed after each."""
    found = hashlib.sha256()
    for name in sorted(set(names)):
        found.update(f"{name}\n".encode())
    return found.hexdigest()


def _table(path: Path, one: ListFile) -> Iterator[tuple[str, bool]]:
    for _, cells in none_left_out(path, read_rows(path, [one.column, *one.where, *one.test])):
        if all(cells[column] in values for column, values in one.where.items()):
            measured = all(cells[column] in values for column, values in one.test.items())
            yield cells[one.column], measured


def _values(tree: Any, keys: Sequence[str]) -> Iterator[Any]:
    if isinstance(tree, list):
        for item in tree:
            yield from _values(item, keys)
    elif not keys:
        yield tree
    elif isinstance(tree, dict) and keys[0] in tree:
        yield from _values(tree[keys[0]], keys[1:])


def _json(path: Path, one: ListFile) -> Iterator[tuple[str, bool]]:
    try:
        tree = json.loads(decode(path.read_bytes()) or "")
    except ValueError:
        raise DataError(f"{path}: not readable JSON; copy the file again") from None
    for value in _values(tree, one.column.split(".")):
        if isinstance(value, str):
            yield value, True


def _lines(path: Path, _: ListFile) -> Iterator[tuple[str, bool]]:
    text = decode(path.read_bytes())
    if text is None:
        raise DataError(f"{path}: not UTF-8 text; copy the file again")
    return ((name, True) for name in text.split())


def _find(folder: Path, one: ListFile) -> Path | None:
    """The file of a pattern; of a table also as ``.csv.gz`` or ``.parquet``."""
    found = sorted(path for path in folder.glob(one.file) if path.is_file())
    if found:
        return found[0]
    whole = folder / one.file
    return find_table(whole.parent, whole.stem) if whole.suffix == ".csv" else None


def draw_studies(names: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    drawn: dict[str, set[str]] = {"train": set(), "val": set(), "test": set()}
    for name in names:
        drawn[split_of(name.partition("_")[0])].add(name)
    return frozenset(drawn["test"]), frozenset(drawn["val"])


DRAWS = {"sha256-of-study": draw_studies}


def _known(images: ImageList, names: frozenset[str]) -> KnownList | None:
    digest = digest_of_names(names)
    for one in images.known:
        if len(names) == one.count and one.sha256 in ("", digest):
            return one
    return None


def _found(
    images: ImageList, where: str, names: Iterable[str], test: Iterable[str] | None = None
) -> FoundList:
    listed = frozenset(names)
    measured, val = listed if test is None else frozenset(test), frozenset[str]()
    if images.draw:
        measured, val = DRAWS[images.draw](listed)
    return FoundList(where, listed, measured, val, _known(images, listed))


def read_list(recipe: Recipe, folder: Path) -> FoundList:
    """The images that the set in a folder lists for a recipe."""
    images = recipe.content.images
    for one in images.files:
        path = _find(folder, one)
        if path is None:
            continue
        read = {".txt": _lines, ".json": _json}.get(path.suffix, _table)
        entries = [(name_of(images.name, name), taken) for name, taken in read(path, one)]
        if not entries:
            raise DataError(f"{path}: lists no image; get it anew from {recipe.content.get}")
        names = [name for name, _ in entries]
        return _found(images, path.name, names, [name for name, taken in entries if taken])
    needed = " or ".join(one.file for one in images.files)
    raise DataError(
        f"{folder}: {needed} is missing, which lists the images of {recipe.name}; get it from "
        f"{recipe.content.get}"
    )


def names_of_folder(recipe: Recipe, names: Sequence[str], test: Sequence[str]) -> FoundList:
    """The images of a data folder, all or of its test split: whichever is the official list."""
    images = recipe.content.images
    whole = _found(images, "manifest", (name_of(images.name, name) for name in names))
    if whole.known is not None or not test:
        return whole
    return _found(images, "manifest", (name_of(images.name, name) for name in test))
