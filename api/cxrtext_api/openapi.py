"""The API's description: FastAPI's own, with its error answers as they really are."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cxrtext_api.gate.admission import FORMS
from cxrtext_api.problems import DETAILS, PROBLEM_TYPE, Problem

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_MEANINGS = {**DETAILS, 404: "The index holds no such image, or there is no index."}
_NOT_OURS = ("HTTPValidationError", "ValidationError")

_OF_EVERY_ROUTE = ("400", "403", "429", "431", "500", "503")
"""What the gate answers wherever a request goes, and what may go wrong anywhere."""
_OF_GUARDED = ("401",)
_OF_BODIES = ("408", "413", "415", "422", "507")

_HEADERS = {
    "X-Request-ID": {
        "description": "Id of this request, as in the server's log.",
        "schema": {"type": "string", "format": "uuid"},
    }
}
_PUBLICATION = {
    "X-Publication": {
        "description": "Digest of the publication that answered; only where the index is a "
        "replica, and of several one for each, in their order.",
        "schema": {"type": "string"},
    }
}
_RETRY = {
    "Retry-After": {
        "description": "Seconds to wait before the next try.",
        "schema": {"type": "integer", "minimum": 0},
    }
}


def describe(app: FastAPI, *, wants_keys: bool) -> dict[str, Any]:
    """Write the description of an application's routes (OpenAPI 3.1).

    Keys are described only where callers need one.
    """
    description = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            if not wants_keys:
                route.pop("security", None)
            content = route.get("requestBody", {}).get("content", {})
            multipart, plain = FORMS
            if plain in content:  # a form without a file is taken in both encodings
                content.setdefault(multipart, content[plain])
            _describe_answers(route, path.startswith("/v1/"), changes=method == "delete")
    if not wants_keys:
        description["components"].pop("securitySchemes", None)
    schemas = description["components"]["schemas"]
    for name in _NOT_OURS:
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem
    description["components"]["schemas"] = dict(sorted(schemas.items()))
    return description


def _describe_answers(route: dict[str, Any], guarded: bool, *, changes: bool) -> None:
    answers = route["responses"]
    statuses = set(_OF_EVERY_ROUTE)
    if guarded:
        statuses.update(_OF_GUARDED)
    if changes:
        statuses.add("507")
    if "requestBody" in route:
        statuses.update(_OF_BODIES)
    for status in statuses:
        answers.setdefault(status, {})
    for status, answer in answers.items():
        code = int(status)
        answer["headers"] = {**answer.get("headers", {}), **_HEADERS}
        if guarded:
            answer["headers"] |= _PUBLICATION
        if code in (429, 503):
            answer["headers"] |= _RETRY
        if code >= 400:
            answer["content"] = {PROBLEM_TYPE: {"schema": _PROBLEM}}
            answer["description"] = _MEANINGS.get(code, answer.get("description", "An error."))
        else:
            answer["description"] = "Done." if code == 204 else "The answer."
    route["responses"] = dict(sorted(answers.items()))
