"""Add and delete images over HTTP: what may enter the index, and who may change what is there.

The rules are those of ``cxrtext import``: `cxrtext.datasets.admission` decides.  Each change is
complete or does not happen.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray
from PIL import Image

from cxrtext.datasets.admission import decide
from cxrtext.datasets.admission.ids import Ids, is_uid, object_ids
from cxrtext.errors import DataError, HeldError, NotFoundError
from cxrtext.images import encode_png
from cxrtext.index import changes, entry
from cxrtext.index.store.writer import write_summary, writing
from cxrtext.service.intake import IndexRows, digest_of, same_pixels, shown_digest
from cxrtext_api.gate.keys import ADMIN, Caller
from cxrtext_api.problems import HELD, Refusal
from cxrtext_api.runtime.uploads import Pixels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cxrtext.images.dicom.described import Described
    from cxrtext.index.store.catalogue import Catalogue, IndexedImage
    from cxrtext.service import EmbeddedImage, Service

WAIT_S = 2.0  # how long a request waits while another process writes the index
NEW_COLUMNS = 16  # columns that one image may add to the index

SPARE_COLUMNS = 100
"""Columns of the index that are reserved for the operator's tables."""

LONGEST_ID = 200

TAKEN = "The index already has an image with this id; send replace=true to replace it."
SAME = "The same pixels are in the index under another id, {}; send replace=true to add them again."
SAME_OTHERWISE = (
    "The same pixels are in the index as {}, under another study or patient. Delete the wrong one, "
    "or send replace=true to add them again."
)
NO_COLUMNS = (
    "metadata: the index has no room for columns that are new to it; leave them out, or delete "
    "images with other columns"
)
MANY_COLUMNS = (
    f"metadata: more than {NEW_COLUMNS} columns are new to the index; leave some out, or have them "
    "indexed from a table first"
)
OTHERS = (
    "Another key added this; to change or delete it, use a key with the scopes write and admin."
)
NOT_ALL = "the index does not hold all of these; nothing was deleted"

Said = tuple[str, int, str]  # a sentence of a report: its section, its place in it, its text


@dataclass(frozen=True, slots=True)
class NewImageForm:
    data: bytes
    image_id: str | None
    study_id: str | None
    patient_id: str | None
    split: Literal["train", "val", "test"] | None
    metadata: dict[str, str]
    report: str | None
    replace: bool
    by_header: bool = False  # whether the id comes from a DICOM file's SOPInstanceUID


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is kept of a new image's file."""

    pixels: Pixels
    png: bytes  # the pixels as a file
    digest: str  # of the pixels

    @property
    def name(self) -> str:
        """An id made from the pixels."""
        return f"{self.digest}.png"


@dataclass(frozen=True, slots=True)
class Rows:
    image: IndexRows
    said: Sequence[Said]
    vectors: Mapping[str, NDArray[Any]]  # by text, for each distinct sentence


def entered(form: NewImageForm, said: "Described | None", ids: Ids) -> NewImageForm:
    """The form, with its gaps filled from the DICOM header if there is one (Refusal)."""
    if said is None:
        return form
    decision = decide(said)
    if not decision.enters:
        raise Refusal(422, f"The image does not enter the archive: {decision}.")
    own = object_ids(said)
    has_uid, named = is_uid(own.instance), ids.of_object(own)
    return replace(
        form,
        image_id=form.image_id or (named.instance if has_uid else None),
        study_id=form.study_id or _usable(named.study),
        patient_id=form.patient_id or _usable(named.patient),
        metadata={"view": decision.view, **form.metadata} if decision.view else form.metadata,
        by_header=form.image_id is None and has_uid,
    )


def _usable(value: str) -> str | None:
    return value if value and len(value) <= LONGEST_ID and value.isprintable() else None


def picture_of(pixels: Pixels) -> Picture:
    return Picture(pixels, encode_png(Image.fromarray(pixels)), digest_of(pixels))


def rows_of(service: "Service", image: "EmbeddedImage", said: Sequence[Said]) -> Rows:
    texts = list(dict.fromkeys(text for *_, text in said))
    vectors = list(service.embed_sentences(texts).cpu().numpy()) if texts else []
    service.renew()
    rows = service.index_rows(service.archive, [image])
    return Rows(rows, said, dict(zip(texts, vectors, strict=True)))


def existing(
    service: "Service",
    name: str,
    form: NewImageForm,
    said: list[Said],
    image: "EmbeddedImage",
    picture: Picture,
) -> str | None:
    """The id under which the index already has this image, so that sending it twice is harmless.

    None if there is no such image, or if it will be replaced: a DICOM object with a corrected
    header has the same SOPInstanceUID and pixels, and replaces the one before.
    """
    service.renew()
    shape = picture.pixels.shape
    known = service.archive.catalogue.image(name)
    if known is not None:
        if (known.height, known.width) != shape or shown_digest(service, known) != picture.digest:
            raise Refusal(409, TAKEN)
        if _agrees(service, known, form, said):
            return name
        if form.by_header:
            return None
        raise Refusal(409, TAKEN)
    for other in same_pixels(service, image, shape, picture.digest, partial(shown_digest, service)):
        if form.image_id is None and _agrees(service, other, form, said):
            return other.image
        same = (form.study_id or other.study_id, form.patient_id or other.patient_id)
        detail = SAME if same == (other.study_id, other.patient_id) else SAME_OTHERWISE
        raise Refusal(409, detail.format(other.image))
    return None


def _agrees(
    service: "Service", known: "IndexedImage", form: NewImageForm, said: list[Said]
) -> bool:
    stated = (
        (form.study_id, known.study_id),
        (form.patient_id, known.patient_id),
        (form.split, known.split),
        *((value, known.metadata.get(name)) for name, value in form.metadata.items()),
    )
    if any(new is not None and new != old for new, old in stated):
        return False
    if not said:
        return True
    return service.archive.report(known.study_id) == [(section, text) for section, _, text in said]


def _is_of_others(
    catalogue: "Catalogue", column: str, value: str, caller: Caller, *, but: str = ""
) -> bool:
    """Whether the caller may not change the images with this value, apart from ``but``."""
    return ADMIN not in caller.scopes and entry.is_of_others(
        catalogue, column, value, caller.key_id, but=but
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

    After a kill it is there completely or not at all; a refused image leaves nothing behind.  Its
    file is named by its content.  The image that it replaces, which is returned, keeps its own file
    until the index names the new one.
    """
    index = service.archive
    with ExitStack() as stack:
        with _held():
            catalogue = stack.enter_context(
                entry.entering(index.folder, rows.image.generation, WAIT_S)
            )
        known = catalogue.image(name)
        if known is not None and not form.replace:
            raise Refusal(409, TAKEN)
        if known is not None and _is_of_others(catalogue, "image", name, caller):
            raise Refusal(403, OTHERS)
        study, patient, split = _said(catalogue, name, form)
        if rows.said and _is_of_others(catalogue, "study_id", study, caller, but=name):
            said = [(section, text) for section, _, text in rows.said]
            if index.report(study) not in ([], said):
                raise Refusal(403, OTHERS)
        _check_columns(catalogue, form.metadata)
        height, width = picture.pixels.shape
        image = entry.keep_image(
            catalogue, uploads, picture.png, ".png",
            image=name, study_id=study, patient_id=patient, split=split, height=height, width=width,
            metadata=form.metadata, labels=rows.image.labels[0], added_by=caller.key_id,
        )  # fmt: skip
        lines = [(study, *one) for one in rows.said]
        reports = entry.reports_of(catalogue, rows.vectors, lines) if lines else None
        changes.add_images(index.folder, catalogue, [image], rows.image.arrays, reports)
    service.renew()
    return known


@contextmanager
def _held() -> "Iterator[None]":
    """Refuse if another process is writing the index, or has rewritten it."""
    try:
        yield
    except (DataError, HeldError):
        raise Refusal(503, HELD) from None


def _said(catalogue: "Catalogue", name: str, form: NewImageForm) -> tuple[str, str, str]:
    """Study, patient and split of a form, with gaps filled from the index."""

    def of_others(wanted: str, column: str, value: str) -> str | None:
        return next(iter(entry.others_say(catalogue, wanted, column, value, but=name)), None)

    study = form.study_id or name
    patient = of_others("patient_id", "study_id", study) or form.patient_id or study
    if form.patient_id not in (None, patient):
        raise Refusal(422, "patient_id: the index has this study under another patient.")
    split = of_others("split", "patient_id", patient) or form.split or "test"
    if form.split not in (None, split):
        raise Refusal(422, "split: the index has this patient in another split.")
    return study, patient, split


def _check_columns(catalogue: "Catalogue", metadata: Mapping[str, str]) -> None:
    if len(set(metadata) - set(catalogue.columns())) > NEW_COLUMNS:
        raise Refusal(422, MANY_COLUMNS)
    try:
        with catalogue.transaction(write=True) as database:
            changes.make_room(database, metadata, SPARE_COLUMNS)
    except DataError:
        raise Refusal(422, NO_COLUMNS) from None


def delete_images(
    service: "Service", images: Sequence[str], studies: Sequence[str], caller: Caller
) -> list[entry.Subject]:
    """Delete images and studies, and return them; if one is missing, nothing is deleted.

    When the last image of a study goes, so does its report.  Files of images that were added over
    HTTP are removed unless another image shares them; files that were indexed in their own place
    stay there.
    """
    folder = service.archive.folder
    with ExitStack() as stack:
        with _held():
            catalogue = stack.enter_context(writing(folder, wait_s=WAIT_S))
        gone = entry.subjects(catalogue, images, studies)
        held = {image.image for image in gone}
        if set(images) - held or set(studies) - {image.study_id for image in gone}:
            raise NotFoundError(NOT_ALL)
        if any(_is_of_others(catalogue, "image", name, caller) for name in held):
            raise Refusal(403, OTHERS)
        if gone:
            with catalogue.transaction(write=True) as database:
                changes.delete_images(database, "image", [image.image for image in gone])
            write_summary(folder, catalogue)
    service.renew()
    return gone
