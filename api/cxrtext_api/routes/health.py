"""Whether the process answers, whether it can be asked, and how it does."""

from fastapi import APIRouter, Request, Response, Security
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

import cxrtext
from cxrtext.client.answers import Health, Readiness
from cxrtext_api.deps import ResourcesDep, problem_of
from cxrtext_api.metrics import CONTENT_TYPE, Metrics
from cxrtext_api.problems import NotReady

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
async def readiness(request: Request, resources: ResourcesDep) -> Readiness:
    """Answer 200 once the model is loaded, 503 before, and again when the server is to stop."""
    _ = resources.service
    if request.app.state.draining:
        raise NotReady("The server is being stopped; ask another one.")
    return Readiness()


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    operation_id="metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **problem_of(401, 403, 404, 429)},
    dependencies=[
        Security(HTTPBearer(auto_error=False, description="A key, where the server wants one."))
    ],
)
async def metrics(request: Request, resources: ResourcesDep) -> Response:
    """Requests, times, queues, errors, the model and the process, in Prometheus' text format."""
    if not resources.settings.metrics:
        raise HTTPException(404)
    measured: Metrics = request.app.state.metrics
    try:
        measured.tell_model(resources.service.describe(), cxrtext.__version__)
        measured.ready.set(0 if request.app.state.draining else 1)
    except NotReady:
        measured.ready.set(0)
    return Response(measured.page(), headers={"Content-Type": CONTENT_TYPE})
