"""Zero-shot classification."""

from typing import Annotated

from fastapi import APIRouter, Form

from cxrtext.client.answers import Classification
from cxrtext_api.deps import GUARDED, ImageDep, ResourcesDep, problems
from cxrtext_api.negotiation import TAKES_FORM
from cxrtext_api.prompts import parse_prompts, phrases_of
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.schemas.of_questions import finding_of

router = APIRouter(
    prefix="/v1",
    tags=["questions"],
    dependencies=[TAKES_FORM, *GUARDED],
    route_class=RefusingRoute,
)

PromptsForm = Annotated[
    str | None,
    Form(
        description='Other findings, as JSON: {"finding": {"positive": […], "negative": […]}}.',
        examples=['{"Fracture": {"positive": ["Rib fracture."], "negative": ["No fracture."]}}'],
    ),
]


@router.post(
    "/classify",
    summary="Probabilities of findings",
    operation_id="classify",
    responses=problems(404, 422),
)
async def classify(
    resources: ResourcesDep, image: ImageDep, prompts: PromptsForm = None
) -> Classification:
    """The probability of each finding in an image, from a positive and a negative prompt."""
    asked = None if prompts is None else parse_prompts(prompts)
    service = resources.service
    embedded = await image.embedded()
    if asked:
        await resources.know(phrases_of(asked))
    found = await resources.compute(service.classify, embedded, asked)
    return Classification(
        model=service.model.fingerprint,
        calibrated=bool(found) and all(finding.calibrated for finding in found),
        findings=[finding_of(finding) for finding in found],
    )
