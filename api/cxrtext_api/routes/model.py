"""The loaded model."""

from fastapi import APIRouter, Request

from cxrtext.client.answers import ModelInfo
from cxrtext_api.about import access_of, model_info
from cxrtext_api.deps import GUARDED, ResourcesDep, problems
from cxrtext_api.refusal import RefusingRoute

router = APIRouter(prefix="/v1", tags=["model"], dependencies=GUARDED, route_class=RefusingRoute)


@router.get("/model", summary="What is loaded", operation_id="get_model", responses=problems())
async def get_model(resources: ResourcesDep, request: Request) -> ModelInfo:
    """The model, what it was trained on, the index, the limits, and what the caller may do."""
    access = access_of(request.scope)
    await resources.see_index()
    return await resources.read(model_info, resources.service, resources.settings, access)
