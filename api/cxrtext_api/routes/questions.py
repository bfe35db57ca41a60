"""Questions to an image: how it looks, what it shows, where, whether a report fits; and to text."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form, Header, Response
from pydantic import StringConstraints, TypeAdapter, ValidationError

from cxrtext.client.answers import finding_of, grounded_of, verified_of
from cxrtext.client.models import Classification, Grounded, Prompts, Unlike, Verified
from cxrtext.errors import InputError
from cxrtext.evaluation import Prompts as ServicePrompts
from cxrtext.images import encode_png
from cxrtext.service.limits import MAX_REPORT_CHARACTERS, check_prompts
from cxrtext.service.verify.sentences import report_sentences
from cxrtext_api.routes.dependencies import GUARDED, ImageDep, SessionDep, problems
from cxrtext_api.routes.fields import DEFAULT_SIDE, JSON, PNG, AsWritten, Side, Threshold, preferred
from cxrtext_api.routes.pictures import PICTURE, answer_picture
from cxrtext_api.runtime.uploads import Pixels

if TYPE_CHECKING:
    from cxrtext.evaluation.classification.calibration import FindingCalibration
    from cxrtext.pausing import Pausing
    from cxrtext.service import EmbeddedImage, FindingScore, Grounding, Service
    from cxrtext.service.verify.sentences import ReportSentence

router = APIRouter(prefix="/v1", dependencies=GUARDED)

MAX_FINDING_CHARACTERS = 200
OVERLAY_SIDE = 2048

FindingName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_FINDING_CHARACTERS)
]

PromptsForm = Annotated[
    str | None,
    Form(
        description='Other findings, as JSON: {"finding": {"positive": […], "negative": […]}}.',
        examples=['{"Fracture": {"positive": ["Rib fracture."], "negative": ["No fracture."]}}'],
    ),
]

Sentence = Annotated[
    str, Form(description="What to look for.", examples=["Left pleural effusion."])
]

Accept = Annotated[
    str, Header(description="image/png for a picture of the heatmap instead of numbers.")
]

Report = Annotated[
    str,
    Form(
        max_length=MAX_REPORT_CHARACTERS,
        description="A report; its findings and impression are looked at.",
        examples=["FINDINGS: Small left pleural effusion. No pneumothorax."],
    ),
]


@router.post(
    "/render",
    tags=["images"],
    summary="An image as PNG",
    operation_id="render",
    response_class=Response,
    responses=PICTURE | problems(404, 422),
)
async def render(session: SessionDep, image: ImageDep, size: Side = DEFAULT_SIDE) -> Response:
    """The image as the model gets it, windowed and upright; see ``get_picture``."""
    return await session.draw(answer_picture, await image.pixels(size))


def parse_prompts(text: str) -> dict[str, ServicePrompts]:
    """Read prompts from JSON (InputError, without quoting what was sent)."""
    try:
        entries = TypeAdapter(dict[FindingName, Prompts]).validate_json(text)
    except ValidationError:
        raise InputError(
            'prompts: expected JSON as {"finding": {"positive": ["…"], "negative": ["…"]}}, each '
            "list with at least one sentence"
        ) from None
    prompts = {
        name: ServicePrompts(tuple(entry.positive), tuple(entry.negative))
        for name, entry in entries.items()
    }
    check_prompts(prompts)
    return prompts


@router.post(
    "/classify",
    tags=["questions"],
    summary="Probabilities of findings",
    operation_id="classify",
    responses=problems(404, 422),
)
async def classify(
    session: SessionDep, image: ImageDep, prompts: PromptsForm = None
) -> Classification:
    """The probability of each finding in an image, from a positive and a negative prompt."""
    asked = None if prompts is None else parse_prompts(prompts)
    service = session.service
    embedded = await image.embedded()
    if asked:
        sides = (side for one in asked.values() for side in (one.positive, one.negative))
        await session.ensure_embedded([phrase for side in sides for phrase in side])
    found = await session.compute(service.classify, embedded, asked)
    return Classification(
        model=service.model.fingerprint,
        calibrated=bool(found) and all(finding.calibrated for finding in found),
        findings=[finding_of(one, _evaluated(service, one, asked)) for one in found],
        unlike=None if embedded.unlike is None else Unlike.model_validate(embedded.unlike),
    )


def _evaluated(
    service: "Service", one: "FindingScore", asked: "dict[str, ServicePrompts] | None"
) -> "FindingCalibration | None":
    if (kept := service.calibration) is None:
        return None
    prompts = (asked or service.prompts)[one.finding]
    return kept.measured_of(one.finding, prompts, by_head=one.by_head)


@router.post(
    "/ground",
    tags=["questions"],
    summary="Where an image supports a sentence",
    operation_id="ground",
    response_model=Grounded,
    responses={200: {"content": {PNG: {}}}, **problems(404, 422)},
)
async def ground(
    session: SessionDep,
    image: ImageDep,
    sentence: Sentence,
    threshold: Threshold = None,
    as_written: AsWritten = False,
    accept: Accept = "*/*",
) -> Grounded | Response:
    """A grid of region scores with its place in the image, the best region, and boxes.

    A picture is at most 2048 pixels wide and high.
    """
    service = session.service
    as_picture = preferred(accept, (JSON, PNG)) == PNG
    embedded, pixels = (
        await image.both(OVERLAY_SIDE) if as_picture else (await image.embedded(), None)
    )
    read = await session.read(service.readings, [sentence], as_written=as_written)
    await session.ensure_embedded(read)
    found = await session.compute(
        service.ground, embedded, sentence, threshold, as_written=as_written
    )
    if pixels is not None:
        return Response(await session.draw(draw_overlay, pixels, found), media_type=PNG)
    return grounded_of(service, embedded, sentence, found)


def draw_overlay(pixels: Pixels, found: "Grounding") -> bytes:
    """A heatmap over an image as PNG, in the size of these pixels, which may be a smaller copy."""
    return encode_png(found.drawn_on(pixels))


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
    tags=["questions"],
    summary="How well an image supports a report",
    operation_id="verify",
    responses=problems(404, 422),
)
async def verify(
    session: SessionDep, image: ImageDep, report: Report, threshold: Threshold = None
) -> Verified:
    """Every sentence of a report with its wording, its support, and where in the image it fits.

    The support is the percentile of the sentence's score among the reference images; a low one
    asks for a second look, and is no proof that the sentence is wrong.
    """
    sentences = await session.read(report_sentences, report)
    embedded = await image.embedded()
    await session.ensure_embedded([found.sentence for found in sentences])
    return await session.work(_verify(session.service, embedded, sentences, threshold))
