"""The application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial

from fastapi import Depends, FastAPI
from fastapi.params import File
from fastapi.routing import APIRoute
from starlette.routing import Route

import cxrtext
from cxrtext_api.gate.keys import KeyRing
from cxrtext_api.gate.middleware import BODIES_HELD, Gate
from cxrtext_api.observe.audit import AuditLog, note_subjects
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.openapi import describe
from cxrtext_api.problems import add_problem_handlers
from cxrtext_api.routes import health, images, model, pacs, page, questions, search, write
from cxrtext_api.runtime.resources import LoadService, Resources, load_from_settings
from cxrtext_api.runtime.scope import Budget
from cxrtext_api.settings import Settings

DESCRIPTION = """Search, label and ground chest radiographs in plain language.

Research use only. Not a medical device.

An image comes as multipart form data (PNG, JPEG or DICOM) or as the `image_id` of an indexed one.
Errors are problem documents (RFC 9457)."""

ROUTES = (health, page, model, images, questions, search, pacs, write)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    resources: Resources = app.state.resources
    audit: AuditLog = app.state.audit
    resources.open()
    try:
        yield
    finally:
        await resources.close()
        audit.close()


def _taking_files() -> frozenset[str]:
    """The addresses that take files."""
    return frozenset(
        route.path
        for routes in ROUTES
        for route in routes.router.routes
        if isinstance(route, APIRoute)
        and route.body_field is not None
        and isinstance(route.body_field.field_info, File)
    )


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
        docs_url=None,  # FastAPI's own page loads its scripts from another site
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(note_subjects)],
        form_limits={"max_files": 2, "max_fields": 256, "max_part_size": 2**20},
    )
    app.state.keys = KeyRing(settings.keys_file)
    app.state.audit = AuditLog(settings.audit_log)
    app.state.metrics = Metrics()
    app.state.draining = False
    app.state.held = Budget(BODIES_HELD * settings.max_body_bytes)
    app.state.resources = Resources(settings, app.state.metrics, load, warm=warm)
    app.add_middleware(
        Gate,
        settings=settings,
        keys=app.state.keys,
        metrics=app.state.metrics,
        audit=app.state.audit,
        taking_files=_taking_files(),
        held=app.state.held,
    )
    add_problem_handlers(app)
    app.state.routes = [route for route in app.routes if isinstance(route, Route)]
    for routes in ROUTES:
        app.include_router(routes.router)
        app.state.routes += routes.router.routes
    app.openapi = cache(partial(describe, app, wants_keys=app.state.keys.guarded))  # type: ignore[method-assign]
    return app
