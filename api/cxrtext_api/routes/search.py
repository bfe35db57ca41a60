"""Retrieval: images by a sentence or an image, sentences by an image."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form

from cxrtext.errors import InputError
from cxrtext_api.deps import GUARDED, AnyImageDep, ChosenImage, ResourcesDep, problems
from cxrtext_api.resources import Resources
from cxrtext_api.schemas import Found, ImageHit, SentenceHit

router = APIRouter(prefix="/v1", tags=["questions"], dependencies=GUARDED)

MAX_RESULTS = 1000

Query = Annotated[
    str | None, Form(description="A sentence.", examples=["Large right pneumothorax."])
]
Count = Annotated[int, Form(ge=1, le=MAX_RESULTS, description="How many to find.")]
Target = Annotated[Literal["images", "sentences"], Form(description="What to find.")]


@router.post(
    "/search",
    summary="Find images or sentences",
    operation_id="search",
    responses=problems(404, 413, 422),
)
async def search(
    resources: ResourcesDep,
    image: AnyImageDep,
    query: Query = None,
    k: Count = 10,
    target: Target = "images",
) -> Found:
    """Find images by a sentence or an image, or sentences by an image.

    Images that fit a sentence, images alike to an image, or
    sentences that fit an image; give one of ``query``, ``image`` and ``image_id``.
    """
    if (query is None) == (image is None):
        raise InputError("give one of: a query, an image, the image_id of an indexed one")
    found = Found(model=resources.service.model.fingerprint, target=target)
    if image is None:
        if target == "sentences":
            raise InputError("sentences are found by an image; give one, or target=images")
        found.images = await _by_text(resources, query or "", k)
    elif target == "images":
        found.images = await _by_image(resources, image, k)
    else:
        found.sentences = await _sentences(resources, image, k)
    return found


async def _by_text(resources: Resources, query: str, k: int) -> list[ImageHit]:
    hits = await resources.compute(resources.service.search_text, query, k)
    return [ImageHit.of(hit) for hit in hits]


async def _by_image(resources: Resources, image: ChosenImage, k: int) -> list[ImageHit]:
    _ = resources.service.index  # told before the image is read
    hits = await resources.compute(resources.service.search_image, await image.embedded(), k)
    return [ImageHit.of(hit) for hit in hits]


async def _sentences(resources: Resources, image: ChosenImage, k: int) -> list[SentenceHit]:
    _ = resources.service.index
    hits = await resources.compute(resources.service.search_sentences, await image.embedded(), k)
    return [SentenceHit.of(hit) for hit in hits]
