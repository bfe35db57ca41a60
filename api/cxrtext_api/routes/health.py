"""Whether the process answers, and whether it can be asked."""

from fastapi import APIRouter

from cxrtext_api.deps import ResourcesDep, problem_of
from cxrtext_api.schemas import Health, Readiness

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the process answers", operation_id="health")
async def health() -> Health:
    """Answer, whatever the state of the model."""
    return Health()


@router.get(
    "/readyz",
    summary="Whether the model is loaded",
    operation_id="readiness",
    responses=problem_of(503),
)
async def readiness(resources: ResourcesDep) -> Readiness:
    """Answer 200 once the model is loaded, 503 before."""
    _ = resources.service
    return Readiness()
