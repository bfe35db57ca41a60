"""The API's description: whole, consistent, and true of what the routes answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter

from cxrtext.client import models
from cxrtext_api import problems
from cxrtext_api.app import create_app
from cxrtext_api.settings import Settings


@pytest.fixture
def description(client: TestClient) -> dict[str, Any]:
    response = client.get("/openapi.json")
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    return body


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON tree."""
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(child, dict | list):
            yield from nodes(child)


def routes(description: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, route)
        for path, methods in description["paths"].items()
        for method, route in methods.items()
    ]


def wants_key(path: str) -> bool:
    return path.startswith("/v1/") or path == "/metrics"


def test_every_route_is_described(description: dict[str, Any]) -> None:
    assert description["openapi"].startswith("3.1")
    assert {(method, path) for path, method, _ in routes(description)} == {
        ("get", "/healthz"),
        ("get", "/readyz"),
        ("get", "/metrics"),
        ("get", "/v1/model"),
        ("get", "/v1/images"),
        ("get", "/v1/images/{image_id}"),
        ("get", "/v1/images/{image_id}/rendered"),
        ("post", "/v1/render"),
        ("post", "/v1/classify"),
        ("post", "/v1/ground"),
        ("post", "/v1/search"),
        ("post", "/v1/search/export"),
        ("post", "/v1/verify"),
        ("post", "/v1/images"),
        ("delete", "/v1/images"),
        ("delete", "/v1/images/{image_id}"),
        ("get", "/v1/columns"),
        ("get", "/v1/worklist"),
        ("get", "/v1/results"),
    }
    names = [route["operationId"] for _, _, route in routes(description)]
    assert len(set(names)) == len(names)
    for path, _, route in routes(description):
        assert route["summary"], path
        assert route["description"], path
        for parameter in route.get("parameters", []):
            assert parameter["name"] in ("image_id", "accept") or parameter["description"], path


def test_references_lead_somewhere(description: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in description["components"]["schemas"]}
    used = {node["$ref"] for node in nodes(description) if isinstance(node.get("$ref"), str)}
    assert used <= known
    assert "#/components/schemas/Problem" in used
    assert not {name for name in known if "ValidationError" in name}


def test_errors_are_problem_documents(description: dict[str, Any]) -> None:
    for path, _, route in routes(description):
        errors = {s: a for s, a in route["responses"].items() if int(s) >= 400}
        assert {"400", "403", "429", "500", "503"} <= set(errors), path
        assert ("401" in errors) == wants_key(path), path
        if "requestBody" in route:
            assert {"413", "415", "422"} <= set(errors), path
        for status, answer in errors.items():
            assert list(answer["content"]) == ["application/problem+json"], path
            assert len(answer["description"]) > 10, (path, status)
            assert "X-Request-ID" in answer["headers"]
            assert ("Retry-After" in answer["headers"]) == (status in ("429", "503"))


def test_keys_are_described_where_they_are_wanted(
    description: dict[str, Any], tmp_path: Path
) -> None:
    assert "securitySchemes" not in description["components"], "this server lets everybody in"
    assert not any("security" in route for _, _, route in routes(description))
    (tmp_path / "keys").write_text(f"one read {'0' * 64}\n")
    description = create_app(Settings(keys_file=tmp_path / "keys")).openapi()
    (name,) = description["components"]["securitySchemes"]
    assert description["components"]["securitySchemes"][name]["scheme"] == "bearer"
    for path, _, route in routes(description):
        assert route.get("security") == ([{name: []}] if wants_key(path) else None), path


def test_images_are_sent_as_files(description: dict[str, Any]) -> None:
    for path in ("/v1/classify", "/v1/ground", "/v1/verify", "/v1/search", "/v1/render"):
        content = description["paths"][path]["post"]["requestBody"]["content"]
        assert list(content) == ["multipart/form-data"]
        form = description["components"]["schemas"][
            content["multipart/form-data"]["schema"]["$ref"].rpartition("/")[2]
        ]
        assert {"image", "image_id"} <= set(form["properties"])
    found = description["paths"]["/v1/search"]["post"]["responses"]["200"]["content"]
    assert set(found) == {"application/json", "text/csv"}
    grounded = description["paths"]["/v1/ground"]["post"]["responses"]["200"]["content"]
    assert set(grounded) == {"application/json", "image/png"}


@pytest.mark.parametrize(
    "model",
    [
        one
        for module in (models, problems)
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, BaseModel)
        and "examples" in str(one.model_config)
    ],
    ids=lambda model: model.__name__,
)
def test_examples_fit_their_schema(model: type[BaseModel]) -> None:
    extra = model.model_config["json_schema_extra"]
    assert isinstance(extra, dict)
    examples = TypeAdapter(list[model]).validate_python(extra["examples"])  # type: ignore[valid-type]
    assert len(examples) == 1


def test_it_says_what_it_is_not(description: dict[str, Any]) -> None:
    assert description["info"]["description"].count("Not a medical device.") == 1


def test_bounds_of_numbers_are_those_that_schemas_know(description: dict[str, Any]) -> None:
    assert not {"ge", "le", "gt", "lt"} & {key for node in nodes(description) for key in node}
