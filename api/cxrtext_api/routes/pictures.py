"""Pictures as answers."""

from typing import Any

from fastapi import Response
from PIL import Image as Pictures

from cxrtext.images import encode_png
from cxrtext.images.gray import Bytes
from cxrtext_api.routes.fields import PNG

PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {PNG: {}}}}


def answer_picture(pixels: Bytes) -> Response:
    """Pixels, [H, W], as a PNG."""
    return Response(encode_png(Pictures.fromarray(pixels)), media_type=PNG)
