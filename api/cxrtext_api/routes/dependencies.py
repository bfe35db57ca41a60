"""The only doors from a route to what it works with."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le
from fastapi import Depends, File, Form, Request, Security, UploadFile
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from cxrtext.errors import InputError
from cxrtext.images.limits import MAX_FRAMES
from cxrtext_api.problems import Refusal
from cxrtext_api.routes.fields import WHOLE
from cxrtext_api.runtime.resources import Resources, Session
from cxrtext_api.runtime.scope import REQUEST_SCOPE, TIME_LIMIT
from cxrtext_api.runtime.uploads import Pixels, Upload

if TYPE_CHECKING:
    from cxrtext.service import EmbeddedImage

MAX_ID_CHARACTERS = 4096
OF_AN_IMAGE = ("rendered", "timeline")
"""The last parts of addresses that are of an image, and name none."""


def _resources(request: Request) -> Resources:
    resources: Resources = request.app.state.resources
    return resources


ResourcesDep = Annotated[Resources, Depends(_resources)]


async def _session(request: Request, resources: ResourcesDep) -> AsyncIterator[Session]:
    """What a request works with; what it holds is given back when its answer begins, or fails."""
    with Session(resources, request.receive, request.scope.get(TIME_LIMIT)) as session:
        request.scope[REQUEST_SCOPE] = session
        yield session


SessionDep = Annotated[Session, Depends(_session)]


async def _check_ready(session: SessionDep) -> None:
    _ = session.service


class ChosenImage:
    """The image of a request: an upload, or the id of an indexed one."""

    def __init__(self, session: Session, upload: Upload | None, image_id: str | None) -> None:
        self._session = session
        self._upload = upload
        self._image_id = image_id or ""

    async def embedded(self) -> "EmbeddedImage":
        if self._upload is not None:
            session = self._session
            return await session.uploads.embed(session, session.service, self._upload)
        await self._session.see_index()
        return await self._session.read(self._session.service.embedded, self._image_id)

    async def pixels(self, side: int) -> Pixels:
        """The image as it is shown, [H, W], its longest side at most so long."""
        session = self._session
        if self._upload is not None:
            return await session.uploads.view(session, self._upload, side)
        await session.see_index()
        return await session.draw(session.service.shown, self._image_id, side)

    async def both(self, side: int) -> "tuple[EmbeddedImage, Pixels]":
        """The image as the model sees it and as it is shown; an upload is decoded once for both."""
        if self._upload is not None:
            session = self._session
            return await session.uploads.embed_shown(session, session.service, self._upload, side)
        return await self.embedded(), await self.pixels(side)


UploadFileField = Annotated[
    UploadFile | None,
    File(description="A radiograph: PNG, JPEG or DICOM, detected from the content."),
]
ImageId = Annotated[
    str | None,
    Form(max_length=MAX_ID_CHARACTERS, description="The id of an indexed image instead."),
]
Frame = Annotated[
    int | None,
    Ge(0),
    Le(MAX_FRAMES - 1),
    WHOLE,
    Form(description="Which frame of an image that is sent, from 0, where it has several."),
]


async def _any_image(
    session: SessionDep,
    image: UploadFileField = None,
    image_id: ImageId = None,
    frame: Frame = None,
) -> ChosenImage | None:
    if image is not None and image_id is not None:
        raise InputError("give either an image or an image_id, not both")
    if image is None and image_id is None:
        return None
    if frame and image is None:
        raise InputError("frame is of an image that is sent; leave it out")
    upload = None if image is None else Upload(await image.read(), frame)
    return ChosenImage(session, upload, image_id)


AnyImageDep = Annotated[Any, Depends(_any_image)]  # a :class:`ChosenImage`, or None


async def _one_image(image: AnyImageDep) -> ChosenImage:
    if not isinstance(image, ChosenImage):
        raise InputError("give an image, or the image_id of an indexed one")
    return image


ImageDep = Annotated[ChosenImage, Depends(_one_image)]


async def _check_writable(session: SessionDep, request: Request) -> None:
    if request.url.path.rpartition("/")[2] in OF_AN_IMAGE:
        raise HTTPException(405)
    if session.settings.read_only:
        raise Refusal(403, READ_ONLY)


WRITES: list[Any] = [Depends(_check_writable)]  # of the routes that change the index

READ_ONLY = "This server only reads: it was started with --read-only."

KEY: Any = Security(HTTPBearer(auto_error=False, description="A key, where the server wants one."))

GUARDED: list[Any] = [KEY, Depends(_check_ready)]
"""Of every route under ``/v1``: ready, and said in the API's description that a key may be wanted
(the gate checks it, before the body is read)."""


def problem_of(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error answers of a route, for the API's description, which fills in their form."""
    return {status: {} for status in statuses}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error answers of a route under ``/v1``, for the API's description."""
    return problem_of(400, 401, *statuses, 503)
