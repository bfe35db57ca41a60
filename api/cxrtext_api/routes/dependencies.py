"""What routes work with; they get it only from here."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request, UploadFile
from pydantic import Field
from starlette.exceptions import HTTPException

from cxrtext.errors import InputError
from cxrtext.images.limits import MAX_FRAMES
from cxrtext.service.questions import WHOLE, Question, Written
from cxrtext_api.gate.access import wants
from cxrtext_api.gate.keys import READ, WRITE
from cxrtext_api.problems import Refusal
from cxrtext_api.runtime.resources import Resources, Session
from cxrtext_api.runtime.uploads import Pixels, Upload

if TYPE_CHECKING:
    from cxrtext.service import EmbeddedImage

OF_AN_IMAGE = ("rendered", "timeline")
"""Last parts of addresses below an image's; no image id may end with one."""


async def _resources(request: Request) -> Resources:
    resources: Resources = request.app.state.resources
    return resources


ResourcesDep = Annotated[Resources, Depends(_resources)]


async def _session(request: Request) -> AsyncIterator[Session]:
    """What a request works with (NotReady before the model is loaded)."""
    with Session(await _resources(request), request.receive) as session:
        _ = session.service
        yield session


SessionDep = Annotated[Session, Depends(_session, scope="function")]
"""It is given back before the answer is sent, as a caller may read slowly."""

LastingSessionDep = Annotated[Session, Depends(_session)]
"""It is given back once the answer has been sent."""


class ChosenImage:
    """The image of a request: an upload, or the id of an indexed one."""

    def __init__(self, session: Session, upload: Upload | None, image_id: str | None) -> None:
        self._session = session
        self._upload = upload
        self._image_id = image_id or ""

    async def image(self) -> "EmbeddedImage | str":
        """An upload embedded, or an indexed image's id for :meth:`.Service.embedded`."""
        session = self._session
        if self._upload is not None:
            return await session.uploads.embed(session, session.service, self._upload)
        await session.see_index()
        return self._image_id

    async def pixels(self, side: int) -> Pixels:
        """The image as it is shown, [H, W], its longest side at most ``side``."""
        session = self._session
        if self._upload is not None:
            return await session.uploads.view(session, self._upload, side)
        await session.see_index()
        return await session.draw(session.service.shown, self._image_id, side)

    async def both(self, side: int) -> "tuple[EmbeddedImage | str, Pixels]":
        """The image for the model and the picture to show; an upload is decoded only once."""
        if self._upload is not None:
            session = self._session
            return await session.uploads.embed_shown(session, session.service, self._upload, side)
        return await self.image(), await self.pixels(side)


class Sent(Question):
    """A question whose image may be a file of the form."""

    image: UploadFile | None = Field(
        default=None, description="A radiograph: PNG, JPEG or DICOM, detected from the content."
    )
    frame: Annotated[int | None, Field(ge=0, le=MAX_FRAMES - 1), WHOLE] = Field(
        default=None,
        description="Which frame of the sent image, from 0, if it has several.",
    )

    def check(self, written: Written = str) -> None:
        super().check(written)
        if self.frame and self.image is None:
            raise InputError("frame only goes with an image file; leave it out")


async def chosen(session: Session, form: Sent) -> ChosenImage:
    """The image of a form that has one."""
    upload = None if form.image is None else Upload(await form.image.read(), form.frame)
    return ChosenImage(session, upload, form.image_id)


async def _check_writable(session: SessionDep, request: Request) -> None:
    if request.url.path.rpartition("/")[2] in OF_AN_IMAGE:
        raise HTTPException(405, headers={"Allow": "GET"})
    if session.settings.read_only:
        raise Refusal(403, READ_ONLY)


WRITES: list[Any] = [
    wants(READ, WRITE),
    Depends(_check_writable),
]  # for routes that change the index

READ_ONLY = "This server only reads: it was started with --read-only."

GUARDED: list[Any] = [wants(READ)]  # for every route under ``/v1``
