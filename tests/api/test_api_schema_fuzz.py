"""Every operation of the API under requests made from its own description, right and wrong."""

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

schemathesis = pytest.importorskip("schemathesis")

import uvicorn  # noqa: E402
from hypothesis import HealthCheck, Phase, assume, given  # noqa: E402
from hypothesis import settings as examples  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import CHECKS, load_all_checks  # noqa: E402

from cxrtext.index import open_index  # noqa: E402
from cxrtext.models import ImageTextModel  # noqa: E402
from cxrtext.pacs.results.folder import ResultsFolder  # noqa: E402
from cxrtext.service import Service  # noqa: E402
from cxrtext_api.app import create_app  # noqa: E402
from cxrtext_api.gate.keys import add_key  # noqa: E402
from cxrtext_api.settings import Settings  # noqa: E402
from tests.server import running  # noqa: E402

LONGEST_QUERY = 2**15  # bytes
EXAMPLES = {GenerationMode.POSITIVE: 3, GenerationMode.NEGATIVE: 2}
DESCRIPTION = create_app(Settings()).openapi()
OPERATIONS = [
    (method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods
]
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
)


@pytest.fixture(scope="module")
def address(
    model: ImageTextModel, index_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A real server with everything that a route can want, and an index of its own."""
    folder = tmp_path_factory.mktemp("fuzz")
    with listening(folder, model, index_folder) as url:
        yield url


@contextmanager
def listening(
    folder: Path, model: ImageTextModel, index_folder: Path, **options: Any
) -> Iterator[str]:
    """A server's address."""
    shutil.copytree(index_folder, folder / "index")
    service = Service(
        model,
        open_index(folder / "index", model),
    )
    ResultsFolder(folder / "results")
    settings = Settings(
        uploads=folder / "uploads",
        rate_limit=0,
        worklist=True,
        results=folder / "results",
        **options,
    )
    app = create_app(settings, lambda _: service)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
    with running(server) as url:
        _wait_until_ready(url)
        yield url


def _wait_until_ready(url: str) -> None:
    end = time.monotonic() + 600
    while time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=5) as response:
            if response.status == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the model was not loaded in time")


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


NOT_CHECKED = {
    "positive_data_acceptance": "a description cannot say all that is wanted of a request: either "
    "an image or an image_id, a file that is an image, a sentence that has a letter",
}
"""Checks of schemathesis that are left out, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [False, True], ids=["without keys", "with a key"])
def test_every_check_of_schemathesis(
    model: ImageTextModel, index_folder: Path, tmp_path: Path, guarded: bool
) -> None:
    options: dict[str, Any] = {}
    header: list[str] = []
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    if guarded:
        key = add_key(tmp_path / "keys", "fuzz", ("read", "write", "metrics"))
        options["keys_file"] = tmp_path / "keys"
        header = ["-H", f"Authorization: Bearer {key}"]
    with listening(tmp_path, model, index_folder, **options) as url:
        command += [
            "run",
            *header,
            f"{url}/openapi.json",
            "--checks",
            "all",
            "--max-examples",
            "10",
        ]
        command += ["--seed", "1", "--phases", "examples,coverage,fuzzing", "--no-color"]
        command += ["--continue-on-failure", "--request-timeout", "60"]
        command += ["--suppress-health-check", "all"]  # those of the generator, not of the server
        command += ["--exclude-checks", ",".join(NOT_CHECKED)] if NOT_CHECKED else []
        with urllib.request.urlopen(f"{url}/openapi.json", timeout=600):
            pass  # made when it is first asked for, and the program waits for ten seconds
        done = subprocess.run(command, capture_output=True, text=True, timeout=1500, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-20_000:]
