"""The only doors from a route to what it works with."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, File, Form, Request, Security, UploadFile
from fastapi.security import HTTPBearer

from cxrtext.errors import InputError
from cxrtext_api.asking import ASKING, CURRENT
from cxrtext_api.resources import Resources

if TYPE_CHECKING:
    from cxrtext.service import EmbeddedImage
    from cxrtext.service.answers import Image

MAX_ID_CHARACTERS = 4096


async def _resources(request: Request) -> AsyncIterator[Resources]:
    """What a request works with; what it holds is given back when its answer begins, or fails."""
    resources: Resources = request.app.state.resources
    asking = resources.ask(request.receive)
    CURRENT.set(asking)
    request.scope[ASKING] = asking
    try:
        yield resources
    finally:
        asking.end()


ResourcesDep = Annotated[Resources, Depends(_resources)]


async def _check_ready(resources: ResourcesDep) -> None:
    _ = resources.service


class ChosenImage:
    """The image of a request: an upload or an indexed one.

    Args:
        resources: What to work with.
        upload: The uploaded file.
        image_id: The id of an indexed image, where there is no upload.
    """

    def __init__(self, resources: Resources, upload: bytes | None, image_id: str | None) -> None:
        self._resources = resources
        self._upload = upload
        self._image_id = image_id or ""

    async def embedded(self) -> "EmbeddedImage":
        """The image as the model sees it."""
        if self._upload is not None:
            return await self._resources.embed_upload(self._upload)
        await self._resources.see_index()
        return await self._resources.read(self._resources.service.embedded, self._image_id)

    async def pixels(self) -> "Image":
        """The image as read, [1, H, W] in [0, 1]."""
        if self._upload is not None:
            return await self._resources.decode_upload(self._upload)
        await self._resources.see_index()
        return await self._resources.draw(self._resources.service.pixels, self._image_id)


Upload = Annotated[
    UploadFile | None, File(description="A radiograph: PNG, JPEG or DICOM, told by content.")
]
ImageId = Annotated[
    str | None,
    Form(max_length=MAX_ID_CHARACTERS, description="The id of an indexed image instead."),
]


async def _any_image(
    resources: ResourcesDep, image: Upload = None, image_id: ImageId = None
) -> ChosenImage | None:
    if image is not None and image_id is not None:
        raise InputError("give either an image or an image_id, not both")
    if image is None and image_id is None:
        return None
    if image is None:
        return ChosenImage(resources, None, image_id)
    resources.hold_bytes(image.size or 0)
    return ChosenImage(resources, await image.read(), None)


AnyImageDep = Annotated[Any, Depends(_any_image)]
"""A :class:`ChosenImage`, or None."""


async def _one_image(image: AnyImageDep) -> ChosenImage:
    if not isinstance(image, ChosenImage):
        raise InputError("give an image, or the image_id of an indexed one")
    return image


ImageDep = Annotated[ChosenImage, Depends(_one_image)]

GUARDED: list[Any] = [
    Security(HTTPBearer(auto_error=False, description="A key, where the server wants one.")),
    Depends(_check_ready),
]
"""Of every route under ``/v1``: ready, and said in the API's description that a key may be wanted
(the gate checks it, before the body is read)."""


def problem_of(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error answers of a route, for the API's description, which fills in their form."""
    return {status: {} for status in statuses}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error answers of a route under ``/v1``, for the API's description."""
    return problem_of(400, 401, *statuses, 503)
