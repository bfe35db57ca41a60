"""Looking for damage: every vector against its checksum."""

from pathlib import Path

from cxrtext.files import sha256
from cxrtext.index.store.catalogue import EMPTY, Catalogue, catalogue_errors
from cxrtext.index.store.vectors import counted_rows, vector_files

ATTEMPTS = 5


def check_index(folder: Path, catalogue: Catalogue, *, most: int | None = None) -> list[str]:
    """What is wrong with an index, a line each; nothing where all is well.

    Args:
        catalogue: Open; another process may write meanwhile.
        most: Bytes of vectors up to which they are read, too, which takes as long as the disk
            does; None has no limit.
    """
    wrong: list[str] = []
    for _ in range(ATTEMPTS):
        with catalogue_errors(catalogue.path), catalogue.transaction() as database:
            wrong = _check_catalogue(catalogue)
            if wrong:
                return wrong  # nothing in it can be relied on
            before = catalogue.meta()
            if "generation" not in before:
                return [EMPTY]
            segments = database.execute("SELECT * FROM segments ORDER BY file, start").fetchall()
            structures = database.execute("SELECT file, digest FROM structures").fetchall()
        files, rows = vector_files(folder, before), counted_rows(before)
        size = sum(rows[name] * file.row_bytes for name, file in files.items())
        vectors = most is None or size <= most
        try:
            wrong = _check_files(folder, before, segments, structures, vectors)
        except FileNotFoundError:
            wrong = ["a file went missing while it was read"]
        if not wrong or catalogue.meta()["generation"] == before["generation"]:
            return wrong
    return wrong


def _check_catalogue(catalogue: Catalogue) -> list[str]:
    state = [str(row[0]) for row in catalogue.database.execute("PRAGMA integrity_check(3)")]
    if state == ["ok"]:
        return []
    return [f"{catalogue.path.name}: {line}" for lines in state for line in lines.splitlines()]


def _check_files(
    folder: Path,
    meta: dict[str, str],
    segments: list[tuple[str, int, int, int]],
    structures: list[tuple[str, str]],
    vectors: bool,
) -> list[str]:
    wrong = []
    files = vector_files(folder, meta)
    covered = dict.fromkeys(files, 0)
    sizes = {
        name: file.path.stat().st_size if file.path.is_file() else -1
        for name, file in files.items()
    }
    for name, start, rows, checksum in segments:
        file = files[name]
        covered[name] = max(covered[name], start + rows)
        if sizes[name] < (start + rows) * file.row_bytes:
            wrong.append(f"{file.path.name}: rows {start} to {start + rows - 1} are missing")
        elif vectors and file.checksum(start, rows) != checksum:
            wrong.append(f"{file.path.name}: rows {start} to {start + rows - 1} are damaged")
    for name, count in counted_rows(meta).items():
        if covered[name] < count:
            wrong.append(f"{files[name].path.name}: checksums for {covered[name]} of {count} rows")
    for name, digest in structures:
        if not (folder / name).is_file() or sha256(folder / name) != digest:
            wrong.append(f"{name}: missing or damaged")
    return wrong
