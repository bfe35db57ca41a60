"""The loaded model."""

from fastapi import APIRouter

import cxrtext
from cxrtext_api.deps import GUARDED, ResourcesDep, problems
from cxrtext_api.schemas import ModelInfo

router = APIRouter(prefix="/v1", tags=["model"], dependencies=GUARDED)


@router.get("/model", summary="What is loaded", operation_id="get_model", responses=problems())
async def get_model(resources: ResourcesDep) -> ModelInfo:
    """The model, its prompts, and how much is indexed."""
    return ModelInfo.of(resources.service, cxrtext.__version__, resources.settings.max_body_bytes)
