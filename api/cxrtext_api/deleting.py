"""Deleting images and studies from the index, all of them or none."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.errors import NotFoundError
from cxrtext_api.adding import locked

if TYPE_CHECKING:
    from cxrtext.index.catalogue import Catalogue
    from cxrtext.service import Service


def delete_images(
    service: "Service", uploads: Path | None, images: Sequence[str], studies: Sequence[str]
) -> int:
    """Delete images and studies; a study whose last image goes, goes with its report.

    The files of images that were added over HTTP are removed; others stay where they are.

    Args:
        service: Whose index is changed.
        uploads: The folder of added images.
        images: Ids of images.
        studies: Ids of studies.

    Returns:
        The number of images deleted.

    Raises:
        NotFoundError: One of them is not in the index; nothing was deleted.
        Refusal: Another process writes.
        WorkError: The index cannot be written.
    """
    from cxrtext.index.summary import write_summary

    with ExitStack() as stack:
        parts = [(part, locked(stack, part.folder)) for part in service.archive.parts]
        found = [_named(catalogue, images, studies) for _, catalogue in parts]
        held = {name for names, _, _ in found for name in names}
        held_studies = {study for _, there, _ in found for study in there}
        if set(images) - held or set(studies) - held_studies:
            raise NotFoundError("the index does not hold all of these; nothing was deleted")
        files = []
        for (part, catalogue), (names, _, paths) in zip(parts, found, strict=True):
            if names:
                _delete(catalogue, sorted(names))
                write_summary(part.folder, catalogue)
                files += paths
    for path in files:
        _remove(path, uploads)
    return sum(len(names) for names, _, _ in found)


def _named(
    catalogue: "Catalogue", images: Sequence[str], studies: Sequence[str]
) -> tuple[set[str], set[str], list[Path]]:
    """Images that are meant, studies that are there, and the files of those images."""
    rows: list[tuple[str, str, str]] = []
    for column, values in (("image", images), ("study_id", studies)):
        for value in values:
            rows += catalogue.database.execute(
                "SELECT image, study_id, path FROM images JOIN roots USING (root) "  # noqa: S608
                f"WHERE {column} = ?",
                (value,),
            ).fetchall()
    names = {name for name, _, _ in rows}
    held = {study for _, study, _ in rows} & set(studies)
    return names, held, [Path(root) / name for name, _, root in dict.fromkeys(rows)]


def _delete(catalogue: "Catalogue", names: Sequence[str]) -> None:
    from cxrtext.index import changes

    with catalogue.transaction(write=True) as database:
        changes.delete_images(database, "image", names)
        database.execute("DELETE FROM said WHERE study_id NOT IN (SELECT study_id FROM images)")
        database.execute("DELETE FROM sentences WHERE number NOT IN (SELECT sentence FROM said)")


def _remove(path: Path, uploads: Path | None) -> None:
    """Remove a file that was added, and folders that are empty without it."""
    if uploads is None or not path.is_relative_to(uploads.resolve()):
        return
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == uploads.resolve() or any(folder.iterdir()):
            return
        folder.rmdir()
