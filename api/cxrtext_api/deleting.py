"""Deleting images and studies from the index, all of them or none."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from cxrtext.errors import NotFoundError
from cxrtext_api.adding import locked

if TYPE_CHECKING:
    from cxrtext.index.store.catalogue import Catalogue
    from cxrtext.service import Service


class Subject(NamedTuple):
    """An image, and whose it is."""

    image: str
    study_id: str
    patient_id: str


def delete_images(
    service: "Service", images: Sequence[str], studies: Sequence[str]
) -> list[Subject]:
    """Delete images and studies; a study whose last image goes, goes with its report.

    The files of images that were added over HTTP are removed, except those that another image
    shares; files that were indexed where they lay stay there.

    Args:
        service: Whose index is changed.
        images: Ids of images.
        studies: Ids of studies.

    Returns:
        The images deleted.

    Raises:
        NotFoundError: One of them is not in the index; nothing was deleted.
        Refusal: Another process writes.
        WorkError: The index cannot be written.
    """
    from cxrtext.index import changes
    from cxrtext.index.store.writer import write_summary

    with ExitStack() as stack:
        parts = [(part, locked(stack, part.folder)) for part in service.archive.parts]
        found = [_named(catalogue, images, studies) for _, catalogue in parts]
        gone = [image for part in found for image in part]
        held = {image.image for image in gone}
        if set(images) - held or set(studies) - {image.study_id for image in gone}:
            raise NotFoundError("the index does not hold all of these; nothing was deleted")
        for (part, catalogue), of_part in zip(parts, found, strict=True):
            if of_part:
                names = [image.image for image in of_part]
                with catalogue.transaction(write=True) as database:
                    changes.delete_images(database, "image", names)
                write_summary(part.folder, catalogue)
    return gone


def _named(catalogue: "Catalogue", images: Sequence[str], studies: Sequence[str]) -> list[Subject]:
    """Images that are meant, each once."""
    found: dict[Subject, None] = {}
    for column, values in (("image", images), ("study_id", studies)):
        for value in values:
            rows = catalogue.database.execute(
                "SELECT image, study_id, patient_id FROM images "  # noqa: S608
                f"WHERE {column} = ? ORDER BY image",
                (value,),
            ).fetchall()
            found |= {Subject(*row): None for row in rows}
    return list(found)
