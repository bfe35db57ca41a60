"""The application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial

from fastapi import FastAPI

import cxrtext
from cxrtext_api.gate import Gate
from cxrtext_api.openapi import describe
from cxrtext_api.problems import add_problem_handlers
from cxrtext_api.resources import LoadService, Resources, load_from_settings
from cxrtext_api.routes import classify, ground, health, images, model, page, render, search
from cxrtext_api.settings import Settings

DESCRIPTION = """Search, label and ground chest radiographs in plain language.

Research use only. Not a medical device.

An image comes as multipart form data (PNG, JPEG or DICOM) or as the `image_id` of an indexed one.
Errors are problem documents (RFC 9457)."""


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    resources: Resources = app.state.resources
    resources.open()
    try:
        yield
    finally:
        await resources.close()


def create_app(settings: Settings, load: LoadService = load_from_settings) -> FastAPI:
    """Build the application.

    The model is loaded in the background once the application starts; until then ``/readyz`` and
    every route under ``/v1`` answer 503.

    Args:
        settings: The server's settings.
        load: Loads the service from the settings.
    """
    app = FastAPI(
        title="cxrtext",
        version=cxrtext.__version__,
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # FastAPI's own page loads its scripts from another site
        redoc_url=None,
        redirect_slashes=False,
        form_limits={"max_files": 2, "max_fields": 16},
    )
    app.state.resources = Resources(settings, load)
    app.add_middleware(Gate, settings=settings)
    add_problem_handlers(app)
    for routes in (health, page, model, images, render, classify, ground, search):
        app.include_router(routes.router)
    app.openapi = cache(partial(describe, app))  # type: ignore[method-assign]
    return app
