"""Adding an image to the index: its file, its vectors, its entry, its study's sentences."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError, ImageError, NotFoundError
from cxrtext_api.keys import READ, Caller
from cxrtext_api.new_image import NewImageForm
from cxrtext_api.refusal import Refusal

if TYPE_CHECKING:
    from cxrtext.index import Index
    from cxrtext.index.changes import NewImage, NewReports
    from cxrtext.index.store.catalogue import Catalogue
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.answers import Image
    from cxrtext_api.settings import Settings

WAIT_S = 2.0
"""How long a request queues while another process writes the index."""

ALIKE = 0.99
"""Cosine of the mean regions below which two images cannot be the same."""
SAME_AMONG = 3

NEW_COLUMNS = 16
"""Columns that one image may bring to the index."""
SPARE_COLUMNS = 100
"""Columns of the index that images added over HTTP leave to the tables of its operator."""

TAKEN = "An image of this id is in the index; send replace=true to put this one in its place."
SAME = "The same pixels are in the index under another id; send replace=true to add them again."
LOCKED = "Another process is writing the index; try again in a moment."
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


@dataclass(frozen=True, slots=True)
class Picture:
    """The pixels of a new image.

    Args:
        pixels: [H, W], 8 bits.
        png: They as a file; nothing else of what was sent is kept.
        name: An id made of them.
    """

    pixels: NDArray[np.uint8]
    png: bytes
    name: str


@dataclass(frozen=True, slots=True)
class Rows:
    """What the model makes of a new image.

    Args:
        generation: Of the index that they fit.
        arrays: A row for each vector file of images.
        labels: Probabilities, by column of labels.
        said: (study, section, position, text) of the report's sentences.
        vectors: Of each distinct sentence, by its text.
    """

    generation: str
    arrays: Mapping[str, NDArray[Any]]
    labels: Mapping[str, float]
    said: Sequence[tuple[str, str, int, str]]
    vectors: Mapping[str, NDArray[Any]]


def picture_of(image: "Image") -> Picture:
    """An image [1, H, W] as it is to be kept."""
    from PIL import Image as Pillow

    from cxrtext.images import encode_png, to_uint8

    pixels = to_uint8(image)
    digest = hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()
    return Picture(pixels, encode_png(Pillow.fromarray(pixels)), f"{digest}.png")


def check_new(
    service: "Service",
    name: str,
    image: "EmbeddedImage",
    pixels: NDArray[np.uint8],
    caller: Caller,
) -> None:
    """Refuse an image whose id or pixels the index holds.

    Of pixels only a caller that may read is told.

    Raises:
        Refusal: It does.
    """
    from cxrtext.images import to_uint8

    if any(part.catalogue.image(name) for part in service.archive.parts):
        raise Refusal(409, TAKEN)
    if READ not in caller.scopes or not service.archive.images:
        return
    for hit in service.search_image(image, SAME_AMONG):
        known = hit.image
        if hit.score < ALIKE or (known.height, known.width) != pixels.shape:
            continue
        try:
            other = service.pixels(known.image)
        except (NotFoundError, ImageError):
            continue
        if np.array_equal(to_uint8(other), pixels):
            raise Refusal(409, SAME)


def rows_of(
    service: "Service",
    name: str,
    image: "EmbeddedImage",
    said: Sequence[tuple[str, str, int, str]],
) -> Rows:
    """What the index keeps of an image and of its study's sentences."""
    from cxrtext.index.features.scoring import packed_rows
    from cxrtext.index.labels import labeller_of

    snapshot = _index_for(service, name).snapshot
    meta = snapshot.meta
    arrays, kept = packed_rows(
        service.model,
        image.regions[None].float(),
        snapshot.language,
        meta["storage"],
        int(meta.get("pool", 1)),
    )
    columns = labeller_of(service.model, meta).columns(kept)
    texts = list(dict.fromkeys(text for *_, text in said))
    vectors = list(service.embed_sentences(texts).cpu().numpy()) if texts else []
    return Rows(
        meta["generation"],
        arrays,
        {name: float(values[0]) for name, values in columns.items()},
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
) -> None:
    """Keep an image and note it in the index; whole or not at all, whatever is killed.

    Its file is named by its content.  What it takes the place of keeps its own file until the
    index names the new one.

    Args:
        service: Whose index is added to.
        uploads: The folder of added images.
        name: The image's id, checked.
        form: What is said of it.
        picture: Its pixels.
        rows: What the model makes of it.
        caller: Who adds it.

    Raises:
        Refusal: The id is taken, what is said contradicts the index, there is no room for its
            columns, or another process writes; nothing was written.
        WorkError: The disk is full or cannot be written.
    """
    from cxrtext.index.changes import add_images
    from cxrtext.index.store.writer import keep_file, write_summary

    index = _index_for(service, name)
    root = uploads.resolve()
    with ExitStack() as stack:
        catalogue = locked(stack, index.folder)
        known = catalogue.image(name)
        if known is not None and not form.replace:
            raise Refusal(409, TAKEN)
        if catalogue.meta()["generation"] != rows.generation:
            raise Refusal(503, LOCKED)  # it was written anew meanwhile
        said = _said(catalogue, name, form, caller)
        _check_columns(catalogue, form.metadata)
        digest = hashlib.sha256(picture.png).hexdigest()
        file = keep_file(catalogue, root, picture.png, digest, ".png")
        entry = _entry(name, root, file, said, form, picture, rows)
        reports = _reports(catalogue, entry.study_id, rows) if rows.said else None
        add_images(index.folder, catalogue, [entry], rows.arrays, reports)
        write_summary(index.folder, catalogue)


def open_uploads(settings: "Settings") -> None:
    """Remove the files of a server that was killed, where images are added.

    Raises:
        CheckpointError: An index is damaged.
        WorkError: An index cannot be written.
    """
    from cxrtext.index.store.writer import writing

    folders = settings.index or ()
    if settings.uploads is None:
        return
    for folder in (folders,) if isinstance(folders, Path) else folders:
        with suppress(DataError), writing(folder):  # else whoever writes now does it
            pass


def locked(stack: ExitStack, folder: Path) -> "Catalogue":
    """Open an index for changes until the stack closes.

    Raises:
        Refusal: Another process writes.
    """
    from cxrtext.index.store.writer import writing

    try:
        return stack.enter_context(writing(folder, wait_s=WAIT_S))
    except DataError:
        raise Refusal(503, LOCKED) from None


def _index_for(service: "Service", name: str) -> "Index":
    """The index that holds an id, else the one that is added to."""
    try:
        return service.archive.find(name)[0]
    except NotFoundError:
        return service.index


@dataclass(frozen=True, slots=True)
class _Said:
    """What is known of an image's study, as far as it may be."""

    study: str
    patient: str
    split: str
    added_by: str


def _said(catalogue: "Catalogue", name: str, form: NewImageForm, caller: Caller) -> _Said:
    """What a form says, with what it does not say taken from the study and the patient.

    A caller that may not read learns nothing of what others added: neither what the index has
    where the form is silent, nor whether the two agree.

    Raises:
        Refusal: The index has it otherwise.
    """
    reads = READ in caller.scopes
    study = form.study_id or name
    others = catalogue.database.execute(
        "SELECT 1 FROM images WHERE study_id = ? AND image <> ? AND added_by IS NOT ? LIMIT 1",
        (study, name, caller.key_id),
    ).fetchone()
    if others and not reads:
        raise Refusal(422, NOT_YOURS)
    patient = _one(catalogue, "patient_id", "study_id", study, name) or form.patient_id or study
    if form.patient_id not in (None, patient):
        raise Refusal(422, "patient_id: the index has this study under another patient.")
    split = _one(catalogue, "split", "patient_id", patient, name) or form.split or "test"
    if reads and form.split not in (None, split):
        raise Refusal(422, "split: the index has this patient in another split.")
    return _Said(study, patient, split, caller.key_id)


def _check_columns(catalogue: "Catalogue", metadata: Mapping[str, str]) -> None:
    """Refuse columns for which there is no room, before anything is written."""
    from cxrtext.index.changes import make_room

    if len(set(metadata) - set(catalogue.columns())) > NEW_COLUMNS:
        raise Refusal(422, MANY_COLUMNS)
    try:
        with catalogue.transaction(write=True) as database:
            make_room(database, metadata, SPARE_COLUMNS)
    except DataError:
        raise Refusal(422, NO_COLUMNS) from None


def _entry(
    name: str,
    root: Path,
    file: str,
    said: _Said,
    form: NewImageForm,
    picture: Picture,
    rows: Rows,
) -> "NewImage":
    from cxrtext.index.changes import NewImage

    height, width = picture.pixels.shape
    return NewImage(
        name,
        str(root),
        said.study,
        said.patient,
        said.split,
        height,
        width,
        form.metadata,
        rows.labels,
        file,
        said.added_by,
    )


def _reports(catalogue: "Catalogue", study_id: str, rows: Rows) -> "NewReports":
    from cxrtext.index.changes import NewReports

    known = catalogue.known_sentences()
    new = [text for text in rows.vectors if text not in known]
    vectors = np.stack([rows.vectors[text] for text in new]) if new else np.empty(0)
    said = [(study_id, section, position, text) for _, section, position, text in rows.said]
    return NewReports(new, vectors, said)


def _one(catalogue: "Catalogue", wanted: str, column: str, value: str, name: str) -> str | None:
    """What other images say in one column where another has a value."""
    row = catalogue.database.execute(
        f"SELECT {wanted} FROM images WHERE {column} = ? AND image <> ? LIMIT 1",  # noqa: S608
        (value, name),
    ).fetchone()
    return None if row is None else str(row[0])
