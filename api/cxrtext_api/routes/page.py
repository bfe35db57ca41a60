"""The page, the API's description for people, and what both are made of."""

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """Content and media type of every file of the page, by name."""
    return {
        file.name: (file.read_bytes(), kind)
        for file in files("cxrtext_api").joinpath("web").iterdir()
        if (kind := _KINDS.get("." + file.name.rpartition(".")[2]))
    }


def _respond(name: str) -> Response:
    if name not in _files():
        raise HTTPException(404)
    content, kind = _files()[name]
    return Response(content, media_type=kind)


@router.get("/")
async def page() -> Response:
    """The page."""
    return _respond("index.html")


@router.get("/docs")
async def docs() -> Response:
    """The API's description for people."""
    return _respond("docs.html")


@router.get("/web/{name}")
async def web_file(name: str) -> Response:
    """A script, a style sheet or a picture of the page."""
    return _respond(name)
