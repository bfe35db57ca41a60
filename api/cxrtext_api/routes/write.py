"""Adding and deleting images."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from cxrtext.client.answers import AddedImage, Deleted
from cxrtext.errors import InputError, UnavailableError
from cxrtext_api import adding
from cxrtext_api.audit import SUBJECTS, add_subjects
from cxrtext_api.deleting import Subject, delete_images
from cxrtext_api.deps import GUARDED, ResourcesDep, problems
from cxrtext_api.keys import CALLER, READ, Caller
from cxrtext_api.negotiation import TAKES_FORM
from cxrtext_api.new_image import NewImageDep, sentences_of
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.routes.images import detail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cxrtext_api.resources import Resources

router = APIRouter(prefix="/v1", tags=["images"], dependencies=GUARDED, route_class=RefusingRoute)

MAX_DELETED = 1000
MAX_ID_CHARACTERS = 4096

Ids = Annotated[list[str], Query(max_length=MAX_DELETED, description="An image; repeatable.")]
Studies = Annotated[list[str], Query(max_length=MAX_DELETED, description="A study; repeatable.")]


def _uploads(resources: "Resources") -> "Path":
    folder = resources.settings.uploads
    if folder is None:
        raise UnavailableError(
            "this server takes no images; start it with --uploads FOLDER to keep them in"
        )
    return folder


@router.post(
    "/images",
    summary="Add an image",
    operation_id="add_image",
    status_code=201,
    dependencies=[TAKES_FORM],
    responses={
        201: {
            "headers": {
                "Location": {
                    "description": "The image's address.",
                    "schema": {"type": "string"},
                }
            }
        },
        **problems(404, 409, 422),
    },
)
async def add_image(
    resources: ResourcesDep, form: NewImageDep, request: Request, response: Response
) -> AddedImage:
    """Embed an image and add it to the index, where the next search finds it.

    Its pixels are kept as an 8-bit PNG, windowed and upright; whatever else the file held, such
    as a patient's name, is not.  A key that may not read is told of nothing but what it sent.
    """
    uploads, service = _uploads(resources), resources.service
    caller: Caller = request.scope[CALLER]
    _ = service.index  # told before the image is decoded
    pixels = await resources.decode_upload(form.data)
    embedded = await resources.embed_upload(form.data)
    picture = await resources.read(adding.picture_of, pixels)
    name = form.image_id or picture.name
    if not form.replace:
        await resources.read(adding.check_new, service, name, embedded, picture.pixels, caller)
    said = await resources.read(sentences_of, form.report or "", form.study_id or name)
    if said:
        await resources.know([text for *_, text in said])
    rows = await resources.compute(adding.rows_of, service, name, embedded, said)
    await resources.read(adding.add_image, service, uploads, name, form, picture, rows, caller)
    added = await resources.read(detail, service, name)
    _note(request, [Subject(added.image_id, added.study_id, added.patient_id)])
    response.headers["Location"] = f"/v1/images/{quote(name)}"
    if READ in caller.scopes:
        return AddedImage(**added.model_dump())
    return AddedImage(
        image_id=name,
        width=added.width,
        height=added.height,
        study_id=form.study_id,
        patient_id=form.patient_id,
        metadata=form.metadata,
    )


@router.delete(
    "/images",
    summary="Delete images and studies",
    operation_id="delete_images",
    responses=problems(404, 422),
)
async def delete_many(
    resources: ResourcesDep,
    request: Request,
    image_id: Ids = [],  # noqa: B006 - FastAPI copies it
    study_id: Studies = [],  # noqa: B006
) -> Deleted:
    """Delete images and studies, all that are named or none.

    They are found no more; their vectors leave the disk when the index is compacted.
    """
    if not image_id and not study_id:
        raise InputError("name at least one image_id or study_id")
    if any(len(name) > MAX_ID_CHARACTERS for name in (*image_id, *study_id)):
        raise InputError(f"an id has more than {MAX_ID_CHARACTERS} characters")
    return Deleted(deleted=await _delete(resources, request, image_id, study_id))


@router.delete(
    "/images/{image_id:path}",
    summary="Delete an image",
    operation_id="delete_image",
    status_code=204,
    responses=problems(404),
)
async def delete_one(resources: ResourcesDep, image_id: str, request: Request) -> Response:
    """Delete an image; its study's report goes with the study's last image."""
    await _delete(resources, request, [image_id], [])
    return Response(status_code=204)


async def _delete(
    resources: "Resources", request: Request, images: list[str], studies: list[str]
) -> int:
    """Delete, and note for the audit log whose images went; gives how many."""
    gone = await resources.read(delete_images, resources.service, images, studies)
    _note(request, gone)
    return len(gone)


def _note(request: Request, images: "Sequence[Subject]") -> None:
    subjects = request.scope.setdefault(SUBJECTS, {})
    for number, name in enumerate(("image_id", "study_id", "patient_id")):
        add_subjects(subjects, name, [image[number] for image in images])
