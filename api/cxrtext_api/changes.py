"""Adding an image to the index and deleting images from it, whole or not at all."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cxrtext.errors import DataError, NotFoundError
from cxrtext.images import encode_png
from cxrtext.index import changes
from cxrtext.index.changes import NewImage, NewReports
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.labels import labeler_of
from cxrtext.index.store.catalogue import UNLIKE
from cxrtext.index.store.writer import keep_file, write_summary, writing
from cxrtext_api.gate.keys import ADMIN, READ, Caller
from cxrtext_api.problems import HELD, Refusal
from cxrtext_api.runtime.uploads import Pixels

if TYPE_CHECKING:
    from cxrtext.index import Index
    from cxrtext.index.store.catalogue import Catalogue, IndexedImage
    from cxrtext.service import EmbeddedImage, Service

WAIT_S = 2.0
"""How long a request queues while another process writes the index."""

NEW_COLUMNS = 16
"""Columns that one image may bring to the index."""

SPARE_COLUMNS = 100
"""Columns of the index that images added over HTTP leave to the tables of its operator."""

TAKEN = "An image of this id is in the index; send replace=true to put this one in its place."
NO_COLUMNS = (
    "metadata: the index has no room for columns that are new to it; leave them out, or delete the "
    "images that have others"
)

MANY_COLUMNS = (
    f"metadata: more than {NEW_COLUMNS} columns are new to the index; leave some out, or have them "
    "indexed from a table first"
)

NOT_YOURS = (
    "study_id: the index has images of this study that another key added; a key that may not read "
    "adds to studies of its own alone"
)
OTHERS = (
    "This key did not bring that in: to change or delete what others did wants a key of the scopes "
    "write and admin."
)

NOT_ALL = "the index does not hold all of these; nothing was deleted"

Said = tuple[str, int, str]
"""A sentence of a report: its section, its place in it, its text."""


@dataclass(frozen=True, slots=True)
class NewImageForm:
    """An image to be added, as the form's fields say; see the route."""

    data: bytes
    image_id: str | None
    study_id: str | None
    patient_id: str | None
    split: Literal["train", "val", "test"] | None
    metadata: dict[str, str]
    report: str | None
    replace: bool
    by_header: bool = False  # whether the id is made of a DICOM file's SOPInstanceUID


@dataclass(frozen=True, slots=True)
class Picture:
    """A new image as it is kept: nothing else of what was sent is."""

    pixels: Pixels
    png: bytes  # the pixels as a file
    name: str  # an id made of them


@dataclass(frozen=True, slots=True)
class Rows:
    """What the model makes of a new image."""

    generation: str  # of the index that they fit
    arrays: Mapping[str, NDArray[Any]]  # a row for each vector file of images
    labels: Mapping[str, float]  # what the model says of it, by column
    said: Sequence[Said]
    vectors: Mapping[str, NDArray[Any]]  # of each distinct sentence, by its text


def picture_of(pixels: Pixels) -> Picture:
    """An image as it is to be kept."""
    digest = hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()
    return Picture(pixels, encode_png(Image.fromarray(pixels)), f"{digest}.png")


def rows_of(service: "Service", name: str, image: "EmbeddedImage", said: Sequence[Said]) -> Rows:
    """What the index keeps of an image and of its study's sentences."""
    snapshot = _index_for(service, name).snapshot
    meta = snapshot.meta
    arrays, kept = packed_rows(
        service.model,
        image.regions[None].float(),
        snapshot.language,
        meta["storage"],
        int(meta.get("pool", 1)),
    )
    columns = labeler_of(service.model, meta).columns(kept)
    texts = list(dict.fromkeys(text for *_, text in said))
    vectors = list(service.embed_sentences(texts).cpu().numpy()) if texts else []
    unlike = {} if image.unlike is None else {UNLIKE: image.unlike.share}
    return Rows(
        meta["generation"],
        arrays,
        {name: float(values[0]) for name, values in columns.items()} | unlike,
        said,
        dict(zip(texts, vectors, strict=True)),
    )


def add_image(
    service: "Service",
    uploads: Path,
    name: str,
    form: NewImageForm,
    picture: Picture,
    rows: Rows,
    caller: Caller,
) -> "IndexedImage | None":
    """Keep an image and note it in the index, under an id that was checked.

    Nothing of it is there before all of it is, whatever is killed.  Its file is named by its
    content.  What it takes the place of keeps its own file until the index names the new one.

    Returns:
        The image that it took the place of.

    Raises:
        Refusal: The id is taken, others brought in what would be changed, what is said contradicts
            the index, there is no room for its columns, or another process writes; nothing was
            written.
        WorkError: The disk is full or cannot be written.
    """
    index = _index_for(service, name)
    root = uploads.resolve()
    with ExitStack() as stack:
        catalogue = locked(stack, index.folder)
        known = catalogue.image(name)
        if known is not None and not form.replace:
            raise Refusal(409, TAKEN)
        if known is not None and is_of_others([catalogue], "image", name, caller):
            raise Refusal(403, OTHERS)
        if catalogue.meta()["generation"] != rows.generation:
            raise Refusal(503, HELD)  # it was written anew meanwhile
        others = [part.catalogue for part in service.archive.parts if part is not index]
        study, patient, split = _said([catalogue, *others], name, form, caller)
        if rows.said and is_of_others([catalogue, *others], "study_id", study, caller, but=name):
            said = [(section, text) for section, _, text in rows.said]
            if service.archive.report(study) not in ([], said):
                raise Refusal(403, OTHERS)
        _check_columns(catalogue, form.metadata)
        digest = hashlib.sha256(picture.png).hexdigest()
        file = keep_file(catalogue, root, picture.png, digest, ".png")
        height, width = picture.pixels.shape
        entry = NewImage(
            *(name, str(root), study, patient, split, height, width),
            *(form.metadata, rows.labels, file, caller.key_id),
        )
        reports = _reports(catalogue, study, rows) if rows.said else None
        changes.add_images(index.folder, catalogue, [entry], rows.arrays, reports)
        write_summary(index.folder, catalogue)
        return known


def is_of_others(
    catalogues: "Sequence[Catalogue]", column: str, value: str, caller: Caller, *, but: str = ""
) -> bool:
    """Whether images of a value, beside one, are not the caller's to change: asked of their rows.

    What has no key, as by an import or from a PACS, is the operator's.
    """
    query = f"SELECT 1 FROM images WHERE {column} = ? AND image <> ? AND added_by IS NOT ? LIMIT 1"  # noqa: S608
    asked = (value, but, caller.key_id)
    return ADMIN not in caller.scopes and any(
        catalogue.database.execute(query, asked).fetchone() for catalogue in catalogues
    )


def locked(stack: ExitStack, folder: Path) -> "Catalogue":
    """Open an index for changes until the stack closes.

    Raises:
        Refusal: Another process writes.
    """
    try:
        return stack.enter_context(writing(folder, wait_s=WAIT_S))
    except DataError:
        raise Refusal(503, HELD) from None


def _index_for(service: "Service", name: str) -> "Index":
    """The index that holds an id, else the one that is added to."""
    try:
        return service.archive.find(name)[0]
    except NotFoundError:
        return service.index


def _said(
    catalogues: "Sequence[Catalogue]", name: str, form: NewImageForm, caller: Caller
) -> tuple[str, str, str]:
    """Study, patient and split of a form; what it does not say is taken from the index.

    A caller that may not read learns nothing of what others added: neither what the index has
    where the form is silent, nor whether the two agree.

    Raises:
        Refusal: The index has it otherwise.
    """
    reads = READ in caller.scopes
    study = form.study_id or name
    if not reads and is_of_others(catalogues, "study_id", study, caller, but=name):
        raise Refusal(422, NOT_YOURS)
    patient = _one(catalogues, "patient_id", "study_id", study, name) or form.patient_id or study
    if form.patient_id not in (None, patient):
        raise Refusal(422, "patient_id: the index has this study under another patient.")
    split = _one(catalogues, "split", "patient_id", patient, name) or form.split or "test"
    if reads and form.split not in (None, split):
        raise Refusal(422, "split: the index has this patient in another split.")
    return study, patient, split


def _check_columns(catalogue: "Catalogue", metadata: Mapping[str, str]) -> None:
    """Refuse columns for which there is no room, before anything is written."""
    if len(set(metadata) - set(catalogue.columns())) > NEW_COLUMNS:
        raise Refusal(422, MANY_COLUMNS)
    try:
        with catalogue.transaction(write=True) as database:
            changes.make_room(database, metadata, SPARE_COLUMNS)
    except DataError:
        raise Refusal(422, NO_COLUMNS) from None


def _reports(catalogue: "Catalogue", study_id: str, rows: Rows) -> NewReports:
    known = catalogue.known_sentences()
    new = [text for text in rows.vectors if text not in known]
    vectors = np.stack([rows.vectors[text] for text in new]) if new else np.empty(0)
    return NewReports(new, vectors, [(study_id, *said) for said in rows.said])


def _one(
    catalogues: "Sequence[Catalogue]", wanted: str, column: str, value: str, name: str
) -> str | None:
    """What other images say in one column where another has a value."""
    query = f"SELECT {wanted} FROM images WHERE {column} = ? AND image <> ? LIMIT 1"  # noqa: S608
    rows = (one.database.execute(query, (value, name)).fetchone() for one in catalogues)
    return next((str(row[0]) for row in rows if row is not None), None)


class Subject(NamedTuple):
    """An image, and whose it is."""

    image: str
    study_id: str
    patient_id: str


def delete_images(
    service: "Service", images: Sequence[str], studies: Sequence[str], caller: Caller
) -> list[Subject]:
    """Delete images and studies; a study whose last image goes, goes with its report.

    The files of images that were added over HTTP are removed, except those that another image
    shares; files that were indexed where they lay stay there.

    Returns:
        The images deleted.

    Raises:
        NotFoundError: One of them is not in the index; nothing was deleted.
        Refusal: Others brought one of them in, or another process writes.
        WorkError: The index cannot be written.
    """
    with ExitStack() as stack:
        parts = [(part, locked(stack, part.folder)) for part in service.archive.parts]
        found = [_named(catalogue, images, studies) for _, catalogue in parts]
        gone = [image for part in found for image in part]
        held = {image.image for image in gone}
        if set(images) - held or set(studies) - {image.study_id for image in gone}:
            raise NotFoundError(NOT_ALL)
        catalogues = [catalogue for _, catalogue in parts]
        if any(is_of_others(catalogues, "image", name, caller) for name in held):
            # Whether others' are there is told to those who may read.
            raise Refusal(403, OTHERS) if READ in caller.scopes else NotFoundError(NOT_ALL)
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
