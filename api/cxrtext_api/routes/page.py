"""The page and its files."""

import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

FILES = StaticFiles(directory=Path(__file__).parents[1] / "web")
# Otherwise the machine's own table decides; Python 3.11 without one uses another type.
mimetypes.add_type("text/javascript", ".js")


@router.get("/")
async def page(request: Request) -> Response:
    return await FILES.get_response("index.html", request.scope)


@router.get("/web/{name:path}")
async def web_file(name: str, request: Request) -> Response:
    """A script, a style sheet or a picture of the page."""
    return await FILES.get_response(name, request.scope)
