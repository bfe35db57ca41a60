"""The API's description: FastAPI's own, with its error answers as they really are."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cxrtext_api.problems import DETAILS, PROBLEM_TYPE, Problem

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_MEANINGS = {**DETAILS, 404: "The index holds no such image, or there is no index."}
_NOT_OURS = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> dict[str, Any]:
    """Write the description of an application's routes (OpenAPI 3.1)."""
    description = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
    )
    for methods in description["paths"].values():
        for route in methods.values():
            for status, answer in route["responses"].items():
                if int(status) >= 400:
                    answer["content"] = {PROBLEM_TYPE: {"schema": _PROBLEM}}
                    answer["description"] = _MEANINGS.get(int(status), answer["description"])
                else:
                    answer["description"] = "The answer."
    schemas = description["components"]["schemas"]
    for name in _NOT_OURS:
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem
    description["components"]["schemas"] = dict(sorted(schemas.items()))
    return description
