"""The page, and what it is made of."""

import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

FILES = StaticFiles(directory=Path(__file__).parents[1] / "web")
# Else the machine's own table decides, and Python 3.11 without one has another type.
mimetypes.add_type("text/javascript", ".js")


@router.get("/")
async def page(request: Request) -> Response:
    """The page."""
    return await FILES.get_response("index.html", request.scope)


@router.get("/web/{name:path}")
async def web_file(name: str, request: Request) -> Response:
    """A script, a style sheet or a picture of the page."""
    return await FILES.get_response(name, request.scope)
