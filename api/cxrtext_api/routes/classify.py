"""Zero-shot classification."""

from typing import Annotated

from fastapi import APIRouter, Form

from cxrtext_api.deps import GUARDED, ImageDep, ResourcesDep, problems
from cxrtext_api.prompts import parse_prompts
from cxrtext_api.schemas import Classification, Finding

router = APIRouter(prefix="/v1", tags=["questions"], dependencies=GUARDED)

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
    responses=problems(404, 413, 422),
)
async def classify(
    resources: ResourcesDep, image: ImageDep, prompts: PromptsForm = None
) -> Classification:
    """The probability of each finding in an image, from a positive and a negative prompt."""
    asked = None if prompts is None else parse_prompts(prompts)
    service = resources.service
    found = await resources.compute(service.classify, await image.embedded(), asked)
    return Classification(
        model=service.model.fingerprint, findings=[Finding.of(finding) for finding in found]
    )
