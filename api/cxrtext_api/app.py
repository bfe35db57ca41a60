"""The application, and its description: FastAPI's own, with our real errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Route

import cxrtext
from cxrtext_api.gate.door import BODIES_HELD, FORMS, Door
from cxrtext_api.gate.keys import KeyRing
from cxrtext_api.observe.audit import AuditLog, note_subjects
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.problems import PROBLEM_TYPE, Problem, add_problem_handlers
from cxrtext_api.routes import health, images, marks, model, pacs, page, questions, search, write
from cxrtext_api.runtime.resources import LoadService, Resources, load_from_settings
from cxrtext_api.runtime.scope import Budget
from cxrtext_api.settings import Settings

DESCRIPTION = """Search, label and ground chest radiographs in plain language.

Research use only. Not a medical device.

Send an image as multipart form data (PNG, JPEG or DICOM), or give the `image_id` of an indexed one.
Errors are problem documents (RFC 9457)."""

ROUTERS = (
    *(health.router, health.measures, page.router, model.router, images.router, questions.router),
    *(search.router, marks.router, pacs.router, write.router),
)

ERROR: dict[str, Any] = {
    "description": "An error: its detail says what to fix, its instance is the id in the log.",
    "headers": {
        "Retry-After": {
            "description": "Seconds to wait before the next try, if that may help.",
            "schema": {"type": "integer", "minimum": 0},
        }
    },
    "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
"""Every answer that is not described with its route."""


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    resources: Resources = app.state.resources
    resources.open()
    try:
        yield
    finally:
        await resources.close()


def create_app(
    settings: Settings, load: LoadService = load_from_settings, *, warm: bool = False
) -> FastAPI:
    """Build the application.

    The model is loaded in the background once the application starts; until then ``/readyz`` and
    every route under ``/v1`` answer 503.
    """
    app = FastAPI(
        title="cxrtext",
        version=cxrtext.__version__,
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # FastAPI's own pages load their scripts from another site
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(note_subjects)],
        responses={"default": ERROR},
        form_limits={"max_files": 2, "max_fields": 256, "max_part_size": 2**20},
    )
    app.state.keys = KeyRing(settings.keys_file)
    app.state.audit = AuditLog(settings.audit_log)
    app.state.metrics = Metrics()
    app.state.held = Budget(BODIES_HELD * settings.max_body_bytes)
    app.state.resources = Resources(settings, app.state.metrics, load, warm=warm)
    app.add_middleware(
        Door,
        settings=settings,
        metrics=app.state.metrics,
        audit=app.state.audit,
        held=app.state.held,
    )
    add_problem_handlers(app)
    app.state.routes = [route for route in app.routes if isinstance(route, Route)]
    for router in ROUTERS:
        app.include_router(router)
        app.state.routes += router.routes
    app.openapi = cache(partial(describe, app, wants_keys=app.state.keys.guarded))  # type: ignore[method-assign]
    return app


def describe(app: FastAPI, *, wants_keys: bool) -> dict[str, Any]:
    """Describe an application's routes (OpenAPI 3.1), with keys only if callers need one."""
    description = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    for methods in description["paths"].values():
        for route in methods.values():
            if not wants_keys:
                route.pop("security", None)
            content = route.get("requestBody", {}).get("content", {})
            multipart, plain = FORMS
            if plain in content:  # a form without a file may come in either encoding
                content.setdefault(multipart, content[plain])
    if not wants_keys:
        description["components"].pop("securitySchemes", None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = description["components"]["schemas"]
    schemas.update({**problem.pop("$defs"), "Problem": problem})
    return description
