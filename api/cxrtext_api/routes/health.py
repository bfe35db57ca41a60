"""Whether the process answers, whether it is ready, and its metrics."""

import asyncio

from fastapi import APIRouter, Request, Response

import cxrtext
from cxrtext.client.models import Health, Readiness
from cxrtext_api.gate.access import Guarded, wants
from cxrtext_api.gate.keys import METRICS, READ
from cxrtext_api.observe.audit import AuditLog
from cxrtext_api.observe.metrics import CONTENT_TYPE, Metrics
from cxrtext_api.problems import NO_AUDIT
from cxrtext_api.routes.dependencies import ResourcesDep
from cxrtext_api.runtime.scope import NotReady

router = APIRouter(tags=["health"])
measures = APIRouter(tags=["health"], route_class=Guarded)


@router.get("/healthz", summary="Whether the process answers", operation_id="health")
async def health() -> Health:
    """Answer, whatever the state of the model."""
    return Health()


@router.get(
    "/readyz",
    summary="Whether the model is loaded",
    operation_id="readiness",
)
async def readiness(request: Request, resources: ResourcesDep) -> Readiness:
    """Answer 200 once the model is loaded, 503 before, or if the audit log cannot be written."""
    _ = resources.service  # raises NotReady
    audit: AuditLog = request.app.state.audit
    if audit.failed and not await asyncio.to_thread(audit.works):
        raise NotReady(NO_AUDIT)
    return Readiness()


@measures.get(
    "/metrics",
    summary="Numbers for Prometheus",
    operation_id="metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
    dependencies=[wants(READ, or_else=METRICS)],
)
async def metrics(request: Request, resources: ResourcesDep) -> Response:
    """Requests, times, queues, errors, the model and the process, in Prometheus' text format.

    The index is counted as the last question saw it.
    """
    measured: Metrics = request.app.state.metrics
    try:
        measured.describe_model(resources.service.describe(), cxrtext.__version__)
        measured.ready.set(1)
    except NotReady:
        measured.ready.set(0)
    return Response(measured.page(), headers={"Content-Type": CONTENT_TYPE})
