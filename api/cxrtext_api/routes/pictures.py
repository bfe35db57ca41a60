"""Pictures as answers: a PNG, or the values of a film of more than 8 bits."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Header, Response
from PIL import Image as Pictures

from cxrtext.images import encode_png
from cxrtext.images.gray import Samples
from cxrtext_api.routes.fields import PNG, preferred

VIEWING = "X-Viewing"
"""Header of what a viewer is told of a picture, in JSON."""

GRAYS = "application/octet-stream"
PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {PNG: {}, GRAYS: {}}}}


def _wants_values(
    accept: Annotated[
        str,
        Header(
            description=f"{GRAYS} for the values of a DICOM file of 9 to 16 bits, 16 bits each, "
            "unsigned, low byte first; all others are PNG."
        ),
    ] = PNG,
) -> bool:
    return preferred(accept, (PNG, GRAYS)) == GRAYS


Deep = Annotated[bool, Depends(_wants_values)]


def answer_picture(pixels: Samples, said: Mapping[str, Any]) -> Response:
    """Pixels, [H, W], with what a viewer is told beside them."""
    told = {**said, "shown": pixels.shape[::-1]}
    headers = {VIEWING: json.dumps(told, separators=(",", ":"))}
    if pixels.dtype.itemsize == 2:
        return Response(pixels.astype("<u2").tobytes(), media_type=GRAYS, headers=headers)
    picture = encode_png(Pictures.fromarray(pixels))
    return Response(picture, media_type=PNG, headers=headers)
