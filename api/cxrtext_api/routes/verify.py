"""A report against an image."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form

from cxrtext.client.answers import Verified
from cxrtext_api.about import MAX_REPORT_CHARACTERS
from cxrtext_api.deps import GUARDED, ImageDep, ResourcesDep, problems
from cxrtext_api.negotiation import TAKES_FORM
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.schemas.of_questions import verified_of
from cxrtext_api.thresholds import Threshold

if TYPE_CHECKING:
    from cxrtext.pausing import Pausing
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.verify.sentences import ReportSentence

router = APIRouter(
    prefix="/v1",
    tags=["questions"],
    dependencies=[TAKES_FORM, *GUARDED],
    route_class=RefusingRoute,
)

Report = Annotated[
    str,
    Form(
        max_length=MAX_REPORT_CHARACTERS,
        description="A report; its findings and impression are looked at.",
        examples=["FINDINGS: Small left pleural effusion. No pneumothorax."],
    ),
]


def _sentences(report: str) -> "list[ReportSentence]":
    from cxrtext.service.verify.sentences import report_sentences

    return report_sentences(report)


def _verify(
    service: "Service",
    image: "EmbeddedImage",
    sentences: "list[ReportSentence]",
    threshold: float | None,
) -> "Pausing[Verified]":
    found = yield from service.verify_pausing(image, sentences, threshold)
    return verified_of(service, image, found)


@router.post(
    "/verify",
    summary="How well an image supports a report",
    operation_id="verify",
    responses=problems(404, 422),
)
async def verify(
    resources: ResourcesDep, image: ImageDep, report: Report, threshold: Threshold = None
) -> Verified:
    """Every sentence of a report with its wording, its support, and where in the image it fits.

    The support is the percentile of the sentence's score among the reference images; a low one
    asks for a second look, and is no proof that the sentence is wrong.
    """
    sentences = await resources.read(_sentences, report)
    embedded = await image.embedded()
    await resources.know([found.sentence for found in sentences])
    return await resources.work(_verify(resources.service, embedded, sentences, threshold))
