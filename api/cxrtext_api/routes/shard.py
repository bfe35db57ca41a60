"""What a server that searches several shards asks each of them; not for other callers.

Questions come as vectors, by :mod:`cxrtext.shards.protocol`, and belong to one version of cxrtext.
"""

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from PIL import Image as Pictures

from cxrtext.images import encode_png, to_uint8
from cxrtext.shards import protocol as p
from cxrtext_api.routes.dependencies import GUARDED, SessionDep
from cxrtext_api.routes.fields import JSON, PNG, check_where
from cxrtext_api.runtime.resources import Session

if TYPE_CHECKING:
    from cxrtext.service import Service

router = APIRouter(prefix=p.PATH, include_in_schema=False, dependencies=GUARDED)


LONGEST_S = 3600.0
"""How long an answer may take that wants every image, or every sentence, to be scored."""


def _said(answer: p.Message) -> Response:
    return Response(answer.model_dump_json(), media_type=JSON)


async def _check(session: Session, asked: p.Asked, where: str | None = None) -> None:
    """Refuse what is of another model, or a filter that is wrong (OtherModel, InputError)."""
    session.answering.check(asked)
    await session.see_index()
    await session.read(check_where, session.service, where)


@router.post("/search")
async def search(session: SessionDep, asked: p.SearchAsked) -> Response:
    """Some of the ranked images."""
    await _check(session, asked, asked.where)
    return _said(await session.work(session.answering.search(asked)))


@router.post("/rank")
async def rank(session: SessionDep, asked: p.ImagesAsked) -> Response:
    """Every image that a query leaves, by score and key."""
    session.hold_export()
    session.extend(LONGEST_S)
    await _check(session, asked, asked.where)
    return _said(await session.work(session.answering.rank(asked)))


@router.post("/rows")
async def rows(session: SessionDep, asked: p.RowsAsked) -> Response:
    """Images by their keys."""
    await _check(session, asked)
    return _said(await session.read(session.answering.rows, asked))


@router.post("/image")
async def image(session: SessionDep, asked: p.ImageAsked) -> Response:
    """An image by its id."""
    await _check(session, asked)
    return _said(await session.read(session.answering.image, asked))


@router.get("/picture", response_class=Response)
async def picture(session: SessionDep, image_id: str) -> Response:
    """An image in full size."""
    await session.see_index()
    return Response(await session.draw(_picture, session.service, image_id), media_type=PNG)


def _picture(service: "Service", image_id: str) -> bytes:
    return encode_png(Pictures.fromarray(to_uint8(service.pixels(image_id))))


@router.post("/likeness")
async def likeness(session: SessionDep, asked: p.LikenessAsked) -> Response:
    """Whether an image is unlike all of the shard."""
    await _check(session, asked)
    return _said(await session.read(session.answering.likeness, asked))


@router.post("/columns")
async def columns(session: SessionDep, asked: p.Asked) -> Response:
    """The columns that filters can name."""
    await _check(session, asked)
    return _said(await session.read(session.answering.columns, asked))


@router.post("/candidates")
async def candidates(session: SessionDep, asked: p.CandidatesAsked) -> Response:
    """Images that may stand for all of the archive."""
    await _check(session, asked)
    return _said(await session.read(session.answering.candidates, asked))


@router.post("/regions")
async def regions(session: SessionDep, asked: p.RegionsAsked) -> Response:
    """Regions of images."""
    await _check(session, asked)
    return _said(await session.read(session.answering.regions, asked))


@router.post("/sentences")
async def sentences(session: SessionDep, asked: p.SentencesAsked) -> Response:
    """The best sentences; what they score at large may have to be computed first."""
    session.extend(LONGEST_S)
    await _check(session, asked, asked.where)
    return _said(await session.work(session.answering.sentences(asked)))
