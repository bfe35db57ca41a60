"""Lists of images, from an imported manifest or a file, compared by digest."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.importing.formats.listed import split_of
from cxrtext.errors import DataError
from cxrtext.evaluation.recipes.recipe import ImageList, KnownList, Recipe
from cxrtext.records.decoding import decode

ENDINGS = (".png", ".jpg", ".jpeg", ".dcm", ".dicom")


@dataclass(frozen=True, slots=True)
class FoundList:
    """The names of a benchmark's images.

    ``test`` are measured, ``val`` choose thresholds; ``known`` is the official list with the same
    names, or None.
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
    """The name of an image in a list; suffixes are in lower case, as in official lists."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    if kind == "tail":
        return "/".join(parts[-3:])
    name = parts[-1]
    ending = next((end for end in ENDINGS if name.lower().endswith(end)), "")
    stem = name[: len(name) - len(ending)]
    return stem if kind == "stem" else stem + ending


def digest_of_names(names: Iterable[str]) -> str:
    """SHA-256 of the distinct names, sorted by their code points, with a line feed after each."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(set(names))).encode()).hexdigest()


def _lines(path: Path) -> list[str]:
    text = decode(path.read_bytes())
    if text is None:
        raise DataError(f"{path}: not UTF-8 text; give a file with one name a line")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise DataError(f"{path}: lists no image; give a file with one name a line")
    return names


def draw_studies(names: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    drawn: dict[str, set[str]] = {"train": set(), "val": set(), "test": set()}
    for name in names:
        drawn[split_of(name.partition("_")[0])].add(name)
    return frozenset(drawn["test"]), frozenset(drawn["val"])


def _known(images: ImageList, names: frozenset[str]) -> KnownList | None:
    digest = digest_of_names(names)
    for official in images.known:
        if len(names) == official.count and official.sha256 in ("", digest):
            return official
    return None


def read_list(
    recipe: Recipe, rows: Sequence[Mapping[str, str]], given: Path | None = None
) -> FoundList:
    """The images that a recipe measures, from the rows of a manifest or a file of names.

    A DataError if the recipe needs such a file and none is given.
    """
    images = recipe.content.images
    splits = {name_of(images.name, row["image"]): row.get("split", "") for row in rows}
    where = "manifest" if given is None else given.name
    if given is not None:
        listed = frozenset(name_of(images.name, name) for name in _lines(given))
    elif images.listed == "file":
        raise DataError(
            f"{recipe.name}: an imported set does not tell its images; give a file with one name a "
            f"line as --list FILE (which they are: cxrtext evaluate --recipe {recipe.name})"
        )
    else:
        wanted = {"test"} if images.listed == "test" else {*splits.values()}
        listed = frozenset(name for name, split in splits.items() if split in wanted)
    test, val = listed, frozenset[str]()
    if images.measured == "drawn":
        test, val = draw_studies(listed)
    elif images.measured == "test":
        test = frozenset(name for name in listed if splits.get(name) == "test")
    return FoundList(where, listed, test, val, _known(images, listed))
