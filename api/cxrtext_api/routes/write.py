"""Adding and deleting images."""

import re
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Query, Request, Response, UploadFile

from cxrtext.client.models import AddedImage, Deleted
from cxrtext.errors import InputError
from cxrtext.images.frontal import look
from cxrtext.index.entry import Subject
from cxrtext.records import Study
from cxrtext.records.manifest import SOURCE, is_own_column
from cxrtext.records.numbers import read_strict_json
from cxrtext.service.limits import MAX_ID_CHARACTERS, MAX_REPORT_CHARACTERS, MAX_REPORT_SENTENCES
from cxrtext.text import study_sentences
from cxrtext_api import entry
from cxrtext_api.gate.access import CallerDep, Guarded
from cxrtext_api.gate.keys import Caller
from cxrtext_api.observe.audit import note_images
from cxrtext_api.problems import Refusal
from cxrtext_api.routes.dependencies import (
    GUARDED,
    OF_AN_IMAGE,
    WRITES,
    SessionDep,
)
from cxrtext_api.routes.images import detail
from cxrtext_api.runtime.resources import Session
from cxrtext_api.runtime.uploads import Upload

router = APIRouter(
    route_class=Guarded, prefix="/v1", tags=["images"], dependencies=[*GUARDED, *WRITES]
)

NO_UPLOADS = "This server takes no images; start it with --uploads FOLDER to keep them in."
MAX_ID = 200
MAX_ENTRIES = 64
MAX_NAME = 64
MAX_VALUE = 500
MAX_METADATA = 50_000
_PART = "[A-Za-z0-9_][A-Za-z0-9._-]*"
IMAGE_ID = re.compile(rf"{_PART}(?:/{_PART})*")

NAME = re.compile(r"[A-Za-z0-9_.:-]+")
"""Ids of studies and patients; DICOM's UIDs and common numbers fit."""

RESERVED = frozenset(
    {"image", "image_id", "study_id", "patient_id", "split", "height", "width", "score", SOURCE}
    | {"report", "findings", "impression", "indication", "comparison"}
)
"""Names that metadata must not have, besides those of :func:`is_own_column`: the catalogue's own
columns, the sending system's column, and those of a report."""

Split = Literal["train", "val", "test"]
MAX_DELETED = 1000
Ids = Annotated[list[str], Query(max_length=MAX_DELETED, description="An image; repeatable.")]
Studies = Annotated[list[str], Query(max_length=MAX_DELETED, description="A study; repeatable.")]


async def _new_image_form(
    image: Annotated[
        UploadFile, File(description="PNG, JPEG or DICOM, detected from the content.")
    ],
    image_id: Annotated[
        str | None,
        Form(
            max_length=MAX_ID,
            description="Its id; by default the DICOM object's, else one made from its pixels.",
            examples=["p0007/s0012.png"],
        ),
    ] = None,
    study_id: Annotated[
        str | None,
        Form(
            max_length=MAX_ID,
            description="Its study; by default the DICOM header's, else the image's id.",
        ),
    ] = None,
    patient_id: Annotated[
        str | None,
        Form(
            max_length=MAX_ID,
            description="Its patient; by default the DICOM header's, else its study.",
        ),
    ] = None,
    split: Annotated[Split | None, Form(description="By default its patient's, else test.")] = None,
    metadata: Annotated[
        str | None,
        Form(
            max_length=MAX_METADATA,
            description="More columns, as a JSON object of texts and numbers.",
            examples=['{"view": "PA", "age": 61}'],
        ),
    ] = None,
    report: Annotated[
        str | None, Form(max_length=MAX_REPORT_CHARACTERS, description="Its study's report.")
    ] = None,
    replace: Annotated[
        bool, Form(description="Whether it may replace an image with the same id.")
    ] = False,
) -> entry.NewImageForm:
    if image_id is not None:
        check_image_id(image_id)
    for field, value in (("study_id", study_id), ("patient_id", patient_id)):
        if value is not None and not NAME.fullmatch(value):
            raise InputError(f"{field}: write it with A-Z a-z 0-9 . _ : - only")
    said = {} if metadata is None else parse_metadata(metadata)
    data = await image.read()
    return entry.NewImageForm(data, image_id, study_id, patient_id, split, said, report, replace)


NewImageDep = Annotated[entry.NewImageForm, Depends(_new_image_form)]


@router.post(
    "/images",
    summary="Add an image",
    operation_id="add_image",
    status_code=201,
    responses={
        200: {"description": "It is there already.", "model": AddedImage},
        201: {
            "headers": {
                "Location": {"description": "The image's address.", "schema": {"type": "string"}}
            }
        },
    },
)
async def add_image(
    session: SessionDep,
    form: NewImageDep,
    caller: CallerDep,
    request: Request,
    response: Response,
) -> AddedImage:
    """Embed an image and add it to the index, where the next search finds it.

    Its pixels are kept as an 8-bit PNG, windowed and upright.  DICOM files follow the rules and
    ids of ``cxrtext import``: anything but a frontal chest radiograph is refused, with the reason,
    and study, patient and view are read from the header if the form does not give them.  Nothing
    else in the file, such as a patient's name, is kept.  An image that is there already gets status
    200 and its id; a DICOM file with a corrected header replaces the one before.
    """
    uploads, service = session.settings.uploads, session.service
    if uploads is None:
        raise Refusal(403, NO_UPLOADS)
    _ = service.archive  # refused before the image is decoded
    header = await session.uploads.describe(session, form.data)
    form = entry.entered(form, header, session.ids)
    embedded, pixels = await session.uploads.embed_shown(session, service, Upload(form.data))
    picture = await session.read(entry.picture_of, pixels)
    name = form.image_id or picture.name
    said = await session.read(sentences_of, form.report or "")
    find = partial(entry.existing, service, name, form, said, embedded, picture)
    held = None if form.replace else await session.read(find)
    was = None
    if held is None:
        if said:
            await session.ensure_embedded([text for *_, text in said])
        rows = await session.compute(entry.rows_of, service, embedded, said)
        put = replace(form, replace=form.replace or form.by_header)
        try:
            was = await session.read(
                entry.add_image, service, uploads, name, put, picture, rows, caller
            )
        except Refusal as refusal:  # another request may have added the same image meanwhile
            held = await session.read(find) if refusal.detail == entry.TAKEN else None
            if held is None:
                raise
    seen = await session.read(look, pixels)
    looks = None if seen.frontal else seen.kind  # shown, never a reason to refuse
    response.status_code = 201 if held is None else 200
    name = held or name
    added = await session.read(detail, service, name)
    gone = [] if was is None else [Subject(was.image, was.study_id, was.patient_id)]
    note_images(request, [Subject(added.image_id, added.study_id, added.patient_id), *gone])
    response.headers["Location"] = f"/v1/images/{quote(name)}"
    return AddedImage(**added.model_dump(), looks=looks)


@router.delete(
    "/images",
    summary="Delete images and studies",
    operation_id="delete_images",
)
async def delete_many(
    session: SessionDep,
    caller: CallerDep,
    request: Request,
    image_id: Ids = [],  # noqa: B006 - FastAPI copies it
    study_id: Studies = [],  # noqa: B006
) -> Deleted:
    """Delete all images and studies named, or none.

    Searches no longer find them; their vectors leave the disk when the index is compacted.
    """
    if not image_id and not study_id:
        raise InputError("name at least one image_id or study_id")
    if any(len(name) > MAX_ID_CHARACTERS for name in (*image_id, *study_id)):
        raise InputError(f"an id has more than {MAX_ID_CHARACTERS} characters")
    return Deleted(deleted=await _delete(session, caller, request, image_id, study_id))


@router.delete(
    "/images/{image_id:path}",
    summary="Delete an image",
    operation_id="delete_image",
    status_code=204,
)
async def delete_one(
    session: SessionDep, caller: CallerDep, image_id: str, request: Request
) -> Response:
    """Delete an image; its study's report goes with the study's last image."""
    await _delete(session, caller, request, [image_id], [])
    return Response(status_code=204)


async def _delete(
    session: Session, caller: Caller, request: Request, images: list[str], studies: list[str]
) -> int:
    """Delete, and note for the audit log whose images they were; gives how many."""
    gone = await session.read(entry.delete_images, session.service, images, studies, caller)
    note_images(request, gone)
    return len(gone)


def check_image_id(image_id: str) -> None:
    """Refuse an id that could name a file outside its folder, or another address."""
    if not IMAGE_ID.fullmatch(image_id) or ".." in image_id:
        raise InputError(
            "image_id: write it with A-Z a-z 0-9 . _ - and / between parts, each part beginning "
            "with a letter, a digit or _, without '..'"
        )
    if (last := image_id.rpartition("/")[2]) in OF_AN_IMAGE:
        raise InputError(f"image_id: its last part must not be '{last}'")


def parse_metadata(text: str) -> dict[str, str]:
    """Read metadata from JSON, as text, without empty entries (InputError, without quoting it)."""
    try:
        value = read_strict_json(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or len(value) > MAX_ENTRIES:
        raise InputError(
            f"metadata: expected a JSON object of at most {MAX_ENTRIES} texts and numbers"
        )
    metadata = {}
    for number, (name, given) in enumerate(value.items(), 1):
        if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or name.strip() != name:
            raise InputError(
                f"metadata: the name of entry {number} is empty, has more than {MAX_NAME} "
                "characters, or has some that cannot be printed"
            )
        if name.lower() in RESERVED or is_own_column(name):
            raise InputError(
                f"metadata: entry {number} has a reserved name ("
                f"{', '.join(sorted(RESERVED))}, received, label.*, model.*)"
            )
        if (said := _cell(given, number)) != "":
            metadata[name] = said
    return metadata


def _cell(given: Any, number: int) -> str:
    if given is None:
        return ""
    if isinstance(given, bool | int | float | str):
        said = str(given).strip()
        # No NUL, and no half of a surrogate pair, which UTF-8 cannot write.
        if len(said) <= MAX_VALUE and not re.search("[\0\ud800-\udfff]", said):
            return said
    raise InputError(
        f"metadata: entry {number} is neither text nor a number of at most {MAX_VALUE} characters"
    )


def sentences_of(report: str) -> list[entry.Said]:
    """The sentences of a report that describe the image (InputError: too many)."""
    said = study_sentences(Study("", report=report))
    if len(said) > MAX_REPORT_SENTENCES:
        raise InputError(f"the report has more than {MAX_REPORT_SENTENCES} sentences")
    return [(s.section, s.position, s.sentence) for s in said]
