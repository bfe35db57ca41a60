"""What an operator sees: numbers for Prometheus, and log lines."""

import json
import logging
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

import cxrtext
from cxrtext.service import Service
from cxrtext_api.observe.logs import FIELDS, JsonFormatter, TextFormatter
from cxrtext_api.observe.metrics import CONTENT_TYPE
from tests.api.conftest import serving

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(client: TestClient) -> Samples:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == CONTENT_TYPE
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def one(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def test_the_numbers_of_a_server(service: Service, png: bytes) -> None:
    with serving(service) as client:
        for _ in range(3):
            assert client.get("/v1/images/images/s01.png").status_code == 200
        client.get("/v1/images/none")
        client.get("/v1/model", headers={"Host": "evil.example"})
        client.post("/v1/classify", files={"image": png})
        found = samples(client)
    pattern = "/v1/images/{image_id:path}"
    asked = {"method": "GET", "route": pattern}
    assert one(found, "cxrtext_http_requests_total", status="200", **asked) == 3
    assert one(found, "cxrtext_http_requests_total", status="404", **asked) == 1
    assert one(found, "cxrtext_http_request_seconds_count", route=pattern) == 4
    assert one(found, "cxrtext_rejected_requests_total", reason="host") == 1
    assert one(found, "cxrtext_index_images") == 48
    assert one(found, "cxrtext_index_sentences") > 0
    assert one(found, "cxrtext_ready") == 1
    assert one(found, "cxrtext_requests_under_way") == 1
    about = {"fingerprint": service.model.fingerprint, "version": cxrtext.__version__}
    assert one(found, "cxrtext_model_info", **about) == 1
    assert one(found, "process_resident_memory_bytes") > 0
    assert any(name == "cxrtext_stage_seconds_count" for name, _ in found)
    assert any(name == "cxrtext_batch_size_count" for name, _ in found)


def test_labels_are_no_addresses(client: TestClient) -> None:
    for i in range(20):
        client.get(f"/v1/images/canary-{i}")
        client.get(f"/canary-{i}")
        client.post(f"/v1/canary-{i}", data={"query": "canary"})
    text = client.get("/metrics").text
    assert "canary" not in text


def record(name: str, message: str, *values: Any, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, "file.py", 7, message, values, None)
    for key, value in extra.items():
        setattr(made, key, value)
    return made


def test_a_line_of_json() -> None:
    line = JsonFormatter().format(
        record("cxrtext_api.access", "GET %s", "/v1", status=200, query="canary", key_id="ward")
    )
    told = json.loads(line)
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "info", "logger": "cxrtext_api.access", "message": "GET /v1", "status": 200,
        "key_id": "ward",
    }  # fmt: skip
    assert "query" not in FIELDS


def test_a_line_cannot_be_forged() -> None:
    forged = record("cxrtext_api", "one\r\n2026-01-01T00:00:00 error two")
    assert "\n" not in JsonFormatter().format(forged)
    lines = TextFormatter().format(forged).split("\n")
    assert all(line.startswith("    ") for line in lines[1:])


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_what_other_libraries_say_is_withheld(formatter: logging.Formatter) -> None:
    line = formatter.format(record("pydicom", "Invalid value for VR PN: 'canary'"))
    assert "canary" not in line
    assert "withheld" in line
    assert "pydicom" in line
    failed = record("uvicorn.error", "Exception in ASGI application\n")
    failed.exc_info = (ValueError, ValueError("canary"), None)
    line = formatter.format(failed)
    assert "canary" not in line
    assert "ValueError" in line
