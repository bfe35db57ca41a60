"""Answers say what is unlike the data that the model was trained on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
    prompts_digest,
)
from cxrtext.models.familiar import Familiar
from cxrtext.service import Service

OWN = {"image_id": "images/s00.png"}
REPORT = "FINDINGS: The lungs are clear. The stock market fell."


@pytest.fixture(scope="module")
def blank() -> bytes:
    from io import BytesIO

    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(np.full((80, 80), 128, np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


def _ask(client: TestClient, route: str, image: bytes | None, **fields: str) -> Any:
    files = None if image is None else {"image": ("a.png", image, "image/png")}
    data = fields if image is not None else {**OWN, **fields}
    answer = client.post(f"/v1/{route}", data=data, files=files)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_question_says_whether_the_image_is_unlike(client: TestClient, blank: bytes) -> None:
    questions: list[tuple[str, dict[str, str]]] = [
        ("classify", {}),
        ("ground", {"sentence": "Effusion."}),
        ("verify", {"report": REPORT}),
        ("search", {}),
    ]
    for route, fields in questions:
        own, other = (_ask(client, route, image, **fields)["unlike"] for image in (None, blank))
        assert own.keys() == {"distance", "threshold", "flagged"}
        assert not own["flagged"]
        assert own["distance"] <= own["threshold"]
        assert other["flagged"]
        assert other["distance"] > other["threshold"] == own["threshold"]
    assert "unlike those that the model" in _ask(client, "search", blank)["warning"]
    assert _ask(client, "search", None)["warning"] is None


def test_every_question_says_whether_a_sentence_is_unlike(client: TestClient) -> None:
    far, near = "asdf qwerty", "Left effusion"
    for sentence, flagged in ((far, True), (near, False)):
        found = _ask(client, "ground", None, sentence=sentence)
        assert found["unlike_sentence"]["flagged"] is flagged
    told = _ask(client, "verify", None, report=REPORT)["sentences"]
    assert [one["unlike"]["flagged"] for one in told] == [False, True]
    found = client.post("/v1/search", data={"query": [near, far], "not": "Pneumothorax"}).json()
    assert [one["flagged"] for one in found["unlike_sentences"]] == [False, True, False]
    assert "resembles nothing" in found["warning"]
    assert found["unlike"] is None
    found = client.post("/v1/search", data={"query": far, "target": "sentences"}).json()
    assert found["unlike_sentences"][0]["flagged"]


def test_what_is_not_known_is_null(
    service: Service, serve: Callable[..., Any], blank: bytes
) -> None:
    service.familiar = Familiar()
    with serve(service) as client:
        about = client.get("/v1/model").json()
        assert (about["knows_images"], about["knows_sentences"]) == (False, False)
        assert _ask(client, "classify", blank)["unlike"] is None
        found = _ask(client, "ground", None, sentence="asdf qwerty")
        assert (found["unlike"], found["unlike_sentence"]) == (None, None)
        assert _ask(client, "search", blank, query="asdf")["unlike_sentences"] == [None]


def test_the_server_says_what_it_knows(client: TestClient) -> None:
    about = client.get("/v1/model").json()
    assert (about["knows_images"], about["knows_sentences"]) == (True, True)


def test_a_finding_says_how_well_it_is_detected(
    service: Service, serve: Callable[..., Any], blank: bytes
) -> None:
    """With the prompts that were measured, and no others; and never calibrated where unlike."""
    edema = FindingCalibration(
        scale=2.0, shift=-1.0, prompts=prompts_digest(service.prompts["Edema"]),
        positives=10, negatives=20, error_after=0.06, auc=(0.9, 0.8, 0.95),
    )  # fmt: skip
    service.calibration = KeptCalibration(
        fingerprint=service.model.fingerprint, data="d", measured=("test", 9),
        findings={"Edema": edema},
    )  # fmt: skip
    with serve(service) as client:
        found = {one["finding"]: one for one in _ask(client, "classify", None)["findings"]}
        measured = {"auc": 0.9, "low": 0.8, "high": 0.95, "calibration_error": 0.06}
        assert found["Edema"]["evaluated"] == measured
        assert found["Edema"]["calibrated"]
        assert found["Pneumonia"]["evaluated"] is None
        prompts = '{"Edema": {"positive": ["Wet."], "negative": ["Dry."]}}'
        (other,) = _ask(client, "classify", None, prompts=prompts)["findings"]
        assert other["evaluated"] is None
        answer = _ask(client, "classify", blank)
        assert not any(one["calibrated"] for one in answer["findings"])


def test_an_added_image_is_known_to_the_index(
    service: Service, serve: Callable[..., Any], blank: bytes
) -> None:
    from cxrtext_api.entry import rows_of

    image = service.embed(np.full((1, 80, 80), 0.5, np.float32))
    assert image.unlike is not None
    labels = rows_of(service, "new.png", image, []).image.labels[0]
    assert labels["model.unlike"] == pytest.approx(image.unlike.share)
    assert labels["model.unlike"] > 1


def test_the_heatmap_has_the_scale_of_the_sentence(client: TestClient) -> None:
    told = _ask(client, "verify", None, report="FINDINGS: Left pleural effusion.")["sentences"][0]
    found = _ask(client, "ground", None, sentence="Left pleural effusion.")
    assert found["limits"] == told["limits"]
    low, high = found["limits"]
    assert low < high <= 1
    best = max(value for row in found["grid"] for value in row)
    assert found["stands_out"] == told["stands_out"] == (best > low)
