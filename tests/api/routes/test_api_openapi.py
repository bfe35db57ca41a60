"""The API's description: whole, consistent, and true of what the routes answer."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, assume, given
from hypothesis import settings as examples
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.settings import Settings
from tests.server import served


@pytest.fixture
def description(client: TestClient) -> dict[str, Any]:
    response = client.get("/openapi.json")
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    return body


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
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
    assert description["info"]["description"].count("Not a medical device.") == 1
    assert {path: set(methods) for path, methods in description["paths"].items()} == {
        "/healthz": {"get"},
        "/readyz": {"get"},
        "/metrics": {"get"},
        "/v1/model": {"get"},
        "/v1/images": {"get", "post", "delete"},
        "/v1/images/{image_id}": {"get", "delete"},
        "/v1/images/{image_id}/rendered": {"get"},
        "/v1/images/{image_id}/timeline": {"get"},
        "/v1/columns": {"get"},
        "/v1/render": {"post"},
        "/v1/classify": {"post"},
        "/v1/ground": {"post"},
        "/v1/search": {"post"},
        "/v1/search/export": {"post"},
        "/v1/verify": {"post"},
        "/v1/marks": {"get", "post"},
        "/v1/held": {"get", "post"},
    }
    names = [route["operationId"] for _, _, route in routes(description)]
    assert len(set(names)) == len(names)
    for path, _, route in routes(description):
        assert route["summary"], path
        assert route["description"], path
        for parameter in route.get("parameters", []):
            assert parameter["name"] in ("image_id", "accept") or parameter["description"], path


def test_references_and_bounds_are_those_that_schemas_know(description: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in description["components"]["schemas"]}
    used = {node["$ref"] for node in nodes(description) if isinstance(node.get("$ref"), str)}
    assert used <= known
    assert "#/components/schemas/Problem" in used
    assert not {name for name in known if "ValidationError" in name}
    bounds = {"ge", "le", "gt", "lt"}  # which no schema knows
    assert not bounds & {key for node in nodes(description) for key in node}


def test_errors_are_problem_documents(description: dict[str, Any]) -> None:
    for path, _, route in routes(description):
        assert list(route["responses"]["default"]["content"]) == ["application/problem+json"], path


def test_keys_are_described_where_wanted(description: dict[str, Any], tmp_path: Path) -> None:
    assert "securitySchemes" not in description["components"], "this server lets everybody in"
    assert not any("security" in route for _, _, route in routes(description))
    (tmp_path / "keys").write_text(f"one read {'0' * 64}\n")
    description = create_app(Settings(keys_file=tmp_path / "keys")).openapi()
    (name,) = description["components"]["securitySchemes"]
    assert description["components"]["securitySchemes"][name]["scheme"] == "bearer"
    for path, _, route in routes(description):
        assert route.get("security") == ([{name: []}] if wants_key(path) else None), path


LONGEST_QUERY = 2**15  # bytes
EXAMPLES = {GenerationMode.POSITIVE: 3, GenerationMode.NEGATIVE: 2}
DESCRIPTION = create_app(Settings()).openapi()
OPERATIONS = [
    (method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods
]
CHECKED = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
    "missing_required_header", "unsupported_method", "allow_header_conformance",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(
    model: ImageTextModel, index_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("fuzz")
    with listening(folder, model, index_folder) as url:
        yield url


@contextmanager
def listening(
    folder: Path, model: ImageTextModel, index_folder: Path, **options: Any
) -> Iterator[str]:
    shutil.copytree(index_folder, folder / "index")
    Inbox(folder / "inbox").close()
    options |= {"uploads": folder / "uploads", "inbox": folder / "inbox"}
    settings = Settings(**options)
    with served(settings, Service(model, open_index(folder / "index", model))) as url:
        yield url


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(DESCRIPTION)


@pytest.fixture(scope="module")
def checks() -> list[Callable[..., Any]]:
    load_all_checks()
    return list(CHECKS.get_by_names(list(CHECKED)))


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_answer_but_those_described(
    address: str, schema: Any, checks: Any, method: str, path: str, mode: GenerationMode
) -> None:
    strategy = schema[path][method].as_strategy(generation_mode=mode)

    @examples(
        max_examples=EXAMPLES[mode],
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        # No server reads a head without end: it answers 400 and closes, often before all is sent.
        assume(len(urlencode(dict(case.query or {}), doseq=True)) < LONGEST_QUERY)
        response = case.call(base_url=address, timeout=600)
        case.validate_response(response, checks=checks)

    with suppress(Unsatisfiable):  # nothing can be wrong where nothing is taken
        ask()
