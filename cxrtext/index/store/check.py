"""Look for damage: compare every vector file with its checksum."""

from pathlib import Path

from cxrtext.files import sha256
from cxrtext.index.store.catalogue import EMPTY, Catalogue, catalogue_errors, structure_of
from cxrtext.index.store.vectors import checksum_key, counted_rows, vector_files

ATTEMPTS = 5


def check_index(folder: Path, catalogue: Catalogue, *, most: int | None = None) -> list[str]:
    """What is wrong with an index, one line each.

    Args:
        catalogue: Open; another process may write meanwhile.
        most: Read the vectors only up to this many bytes, which takes as long as the disk needs;
            None for no limit.
    """
    wrong: list[str] = []
    for _ in range(ATTEMPTS):
        with catalogue_errors(catalogue.path), catalogue.transaction():
            wrong = _check_catalogue(catalogue)
            if wrong:
                return wrong  # nothing in it is reliable
            before = catalogue.meta()
        if "generation" not in before:
            return [EMPTY]
        try:
            wrong = _check_files(folder, before, most)
        except FileNotFoundError:
            wrong = ["a file went missing while it was read"]
        if not wrong or catalogue.meta()["generation"] == before["generation"]:
            return wrong
    return wrong


def _check_catalogue(catalogue: Catalogue) -> list[str]:
    state = [str(row[0]) for row in catalogue.database.execute("PRAGMA quick_check(3)")]
    if state == ["ok"]:
        return []
    return [f"{catalogue.path.name}: {line}" for lines in state for line in lines.splitlines()]


def _check_files(folder: Path, meta: dict[str, str], most: int | None) -> list[str]:
    wrong = []
    files, counts = vector_files(folder, meta), counted_rows(meta)
    sizes = {name: counts[name] * file.row_bytes for name, file in files.items()}
    compared = most is None or sum(sizes.values()) <= most
    for name, file in files.items():
        there = file.path.stat().st_size if file.path.is_file() else 0
        noted = int(meta.get(checksum_key(name), 0))
        if there < sizes[name]:
            wrong.append(f"{file.path.name}: {there} of {sizes[name]} bytes are there")
        elif compared and sizes[name] and file.checksum(counts[name]) != noted:
            wrong.append(f"{file.path.name}: is damaged")
    structure = structure_of(meta)
    if structure is not None:
        path = folder / structure["file"]
        if not path.is_file() or sha256(path) != structure["digest"]:
            wrong.append(f"{path.name}: missing or damaged")
    return wrong
