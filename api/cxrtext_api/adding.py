"""Adding an image to the index: its file, its vectors, its entry, its study's sentences."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError, ImageError, NotFoundError
from cxrtext.files import replacing
from cxrtext_api.new_image import NewImageForm
from cxrtext_api.refusal import Refusal

if TYPE_CHECKING:
    from cxrtext.index import Index
    from cxrtext.index.catalogue import Catalogue
    from cxrtext.index.changes import NewImage
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.answers import Image

WAIT_S = 2.0
"""How long a request queues while another process writes the index."""

ALIKE = 0.99
"""Cosine of the mean regions below which two images cannot be the same."""
SAME_AMONG = 3

TAKEN = "An image of this id is in the index; send replace=true to put this one in its place."
SAME = "The same pixels are in the index under another id; send replace=true to add them again."
LOCKED = "Another process is writing the index; try again in a moment."


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
    service: "Service", name: str, image: "EmbeddedImage", pixels: NDArray[np.uint8]
) -> None:
    """Refuse an image whose id or pixels the index holds.

    Raises:
        Refusal: It does.
    """
    from cxrtext.images import to_uint8

    if any(part.catalogue.image(name) for part in service.archive.parts):
        raise Refusal(409, TAKEN)
    for hit in service.search_image(image, SAME_AMONG) if service.archive.images else []:
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
    from cxrtext.index.derived import packed_rows
    from cxrtext.index.labels import labeller_of

    state = _index_for(service, name).state
    meta = state.meta
    arrays, kept = packed_rows(
        service.model,
        image.regions[None].float(),
        state.language,
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
    service: "Service", uploads: Path, name: str, form: NewImageForm, picture: Picture, rows: Rows
) -> None:
    """Keep an image and note it in the index; whole or not at all.

    Args:
        service: Whose index is added to.
        uploads: The folder of added images.
        name: The image's id, checked.
        form: What is said of it.
        picture: Its pixels.
        rows: What the model makes of it.

    Raises:
        Refusal: The id is taken, what is said contradicts the index, or another process writes.
        WorkError: The disk is full or cannot be written.
    """
    from cxrtext.index.changes import add_images, add_sentences
    from cxrtext.index.summary import write_summary

    index = _index_for(service, name)
    path = _path(uploads, name)
    with ExitStack() as stack:
        catalogue = locked(stack, index.folder)
        known = catalogue.image(name)
        if known is not None and not form.replace:
            raise Refusal(409, TAKEN)
        if catalogue.meta()["generation"] != rows.generation:
            raise Refusal(503, LOCKED)  # it was written anew meanwhile
        entry = _entry(catalogue, name, uploads, form, picture, rows)
        is_new = not path.exists()
        try:
            _keep(uploads, path, picture.png)
            add_images(index.folder, catalogue, [entry], rows.arrays)
        except DataError:
            _undo(path, is_new)
            raise Refusal(422, "The index keeps no more columns; send less metadata.") from None
        except BaseException:
            _undo(path, is_new)
            raise
        if rows.said:
            sentences = catalogue.known_sentences()
            new = [text for text in rows.vectors if text not in sentences]
            vectors = np.stack([rows.vectors[text] for text in new]) if new else np.empty(0)
            said = [(entry.study_id, *rest) for _, *rest in rows.said]
            add_sentences(index.folder, catalogue, new, vectors, said)  # type: ignore[arg-type]
        write_summary(index.folder, catalogue)


def locked(stack: ExitStack, folder: Path) -> "Catalogue":
    """Open an index for changes until the stack closes.

    Raises:
        Refusal: Another process writes.
    """
    from cxrtext.index.writer import writing

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


def _path(uploads: Path, name: str) -> Path:
    root = uploads.resolve()
    path = root / name
    if not path.parent.resolve().is_relative_to(root) or path.is_symlink() or path.is_dir():
        raise Refusal(409, "An image of this id cannot be kept; choose another id.")
    return path


def _keep(uploads: Path, path: Path, png: bytes) -> None:
    """Write a file for its owner alone, whole or not at all."""
    try:
        uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in reversed(path.relative_to(uploads.resolve()).parents[:-1]):
            (uploads / folder).mkdir(mode=0o700, exist_ok=True)
        with replacing(path) as temporary:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(png)
    except (FileExistsError, NotADirectoryError):
        raise Refusal(409, "An image of this id cannot be kept; choose another id.") from None


def _undo(path: Path, is_new: bool) -> None:
    if is_new:
        with suppress(OSError):
            path.unlink()


def _entry(
    catalogue: "Catalogue",
    name: str,
    uploads: Path,
    form: NewImageForm,
    picture: Picture,
    rows: Rows,
) -> "NewImage":
    """The index's entry, with what is not said taken from the study and the patient."""
    from cxrtext.index.changes import NewImage

    study = form.study_id or name
    patient = _one(catalogue, "patient_id", "study_id", study, name) or form.patient_id or study
    if form.patient_id not in (None, patient):
        raise Refusal(422, "patient_id: the index has this study under another patient.")
    split = _one(catalogue, "split", "patient_id", patient, name) or form.split or "test"
    if form.split not in (None, split):
        raise Refusal(422, "split: the index has this patient in another split.")
    height, width = picture.pixels.shape
    return NewImage(
        name,
        str(uploads.resolve()),
        study,
        patient,
        split,
        height,
        width,
        form.metadata,
        rows.labels,
    )


def _one(catalogue: "Catalogue", wanted: str, column: str, value: str, name: str) -> str | None:
    """What other images say in one column where another has a value."""
    row = catalogue.database.execute(
        f"SELECT {wanted} FROM images WHERE {column} = ? AND image <> ? LIMIT 1",  # noqa: S608
        (value, name),
    ).fetchone()
    return None if row is None else str(row[0])
