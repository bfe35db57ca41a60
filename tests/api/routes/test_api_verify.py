"""A report against an image, and what answers say is unlike the data of the training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from cxrtext.evaluation.classification.calibration import OperatingPoint
from cxrtext.models import load_model
from cxrtext.models.familiar import Familiar
from cxrtext.service import Service
from cxrtext_api.entry import rows_of
from tests.api.conftest import as_file, check_problem, serving
from tests.service.conftest import calibration_of

REPORT = """INDICATION: Cough.

FINDINGS: Left pleural effusion.  No pneumothorax.
The heart may be enlarged.

IMPRESSION: Right pneumothorax."""


def test_every_sentence_of_a_report(client: TestClient, service: Service) -> None:
    data = {"image_id": "images/s01.png", "report": REPORT}
    response = client.post("/v1/verify", data=data)
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["model"], body["width"], body["height"]) == (service.model.fingerprint, 80, 80)
    assert body["reference"]["source"] in ("validation", "index")
    assert body["reference"]["images"] > 0
    said = body["sentences"]
    assert [(one["section"], one["sentence"], one["wording"]) for one in said] == [
        ("findings", "Left pleural effusion.", "affirmed"),
        ("findings", "No pneumothorax.", "negated"),
        ("findings", "The heart may be enlarged.", "uncertain"),
        ("impression", "Right pneumothorax.", "affirmed"),
    ]
    for one in said:
        assert REPORT[one["start"] : one["end"]] == one["sentence"]
        assert 0 <= one["support"] <= 100
        # A checkpoint without calibrated verdicts marks nothing.
        assert (one["verdict"], one["basis"]) == ("not judged", None)
        assert "cxrtext calibrate" in one["reason"]


def test_what_verdicts_rest_on(judged_checkpoint: Path, data_folder: Path) -> None:
    png = (data_folder / "images/s01.png").read_bytes()
    with serving(Service(load_model(judged_checkpoint))) as judging:
        data = {"report": "Pleural effusion. Possible pneumothorax."}
        response = judging.post("/v1/verify", files={"image": png}, data=data)
    assert response.status_code == 200, response.text
    effusion, possible = response.json()["sentences"]
    assert effusion["verdict"] in ("supported", "weak", "unsupported")
    assert effusion["reason"] is None
    basis = effusion["basis"]
    assert (basis["finding"], basis["test"]) == ("pleural effusion", "presence")
    assert (possible["verdict"], possible["basis"]) == ("not judged", None)
    assert "uncertain" in possible["reason"]


@pytest.mark.parametrize("threshold", [{}, {"threshold": 0.1}], ids=["its own", "given"])
def test_places_and_scores_as_in_grounding(client: TestClient, threshold: dict[str, float]) -> None:
    data = {"image_id": "images/s01.png", **threshold}
    verified = client.post("/v1/verify", data={**data, "report": REPORT}).json()
    for one in verified["sentences"]:
        ground = client.post("/v1/ground", data={**data, "sentence": one["sentence"]}).json()
        assert verified["region"] == ground["region"]
        assert one["peak"] == ground["peak"]
        assert (one["limits"], one["stands_out"]) == (ground["limits"], ground["stands_out"])
        assert not threshold or one["threshold"] == ground["threshold"] == 0.1
        assert one["score"] == pytest.approx(ground["score"], abs=1e-5)
        assert one["support"] == ground["support"]
        np.testing.assert_allclose(one["grid"], ground["grid"], atol=1e-5)
        assert [box["bbox"] for box in one["boxes"]] == [box["bbox"] for box in ground["boxes"]]


@pytest.mark.parametrize(
    ("report", "detail"),
    [
        ("", "see errors"),
        ("INDICATION: Cough.", ""),
        ("e" * 20_001, "see errors"),
    ],
)
def test_a_report_that_cannot_be_verified(client: TestClient, report: str, detail: str) -> None:
    data = {"image_id": "images/s01.png", "report": report}
    body = check_problem(client.post("/v1/verify", data=data), 422, detail)
    assert "Cough" not in str(body)


OWN = {"image_id": "images/s00.png"}
STRANGE = "FINDINGS: The lungs are clear. The stock market fell."


@pytest.fixture(scope="module")
def blank() -> bytes:
    return as_file(np.full((80, 80), 128, np.uint8), "png")


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
        ("verify", {"report": STRANGE}),
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
    told = _ask(client, "verify", None, report=STRANGE)["sentences"]
    assert [one["unlike"]["flagged"] for one in told] == [False, True]
    found = client.post("/v1/search", data={"query": [near, far], "not": "Pneumothorax"}).json()
    assert [one["flagged"] for one in found["unlike_sentences"]] == [False, True, False]
    assert "resembles nothing" in found["warning"]
    assert found["unlike"] is None
    found = client.post("/v1/search", data={"query": far, "target": "sentences"}).json()
    assert found["unlike_sentences"][0]["flagged"]


def test_what_is_not_known_is_null(service: Service, blank: bytes) -> None:
    service.familiar = Familiar()
    with serving(service) as client:
        about = client.get("/v1/model").json()
        assert (about["knows_images"], about["knows_sentences"]) == (False, False)
        assert _ask(client, "classify", blank)["unlike"] is None
        found = _ask(client, "ground", None, sentence="asdf qwerty")
        assert (found["unlike"], found["unlike_sentence"]) == (None, None)
        assert _ask(client, "search", blank, query="asdf")["unlike_sentences"] == [None]


def test_a_finding_says_how_well_it_is_detected(service: Service, blank: bytes) -> None:
    """With the prompts that were measured, and no others; and never calibrated where unlike."""
    share = (0.9, 0.8, 0.95)
    service.calibration = calibration_of(
        service.model.fingerprint, {"Edema": service.prompts["Edema"]},
        scale=2.0, shift=-1.0, error_after=0.06, auc=(0.9, 0.8, 0.95),
        points={"Youden": OperatingPoint(threshold=-99.0, sensitivity=share, specificity=share)},
    )  # fmt: skip
    with serving(service) as client:
        found = {one["finding"]: one for one in _ask(client, "classify", None)["findings"]}
        measured = {"auc": 0.9, "low": 0.8, "high": 0.95, "calibration_error": 0.06}
        assert found["Edema"]["evaluated"] == measured
        assert found["Edema"]["calibrated"]
        assert (found["Edema"]["flagged"], found["Pneumonia"]["flagged"]) == (True, None)
        assert found["Pneumonia"]["evaluated"] is None
        prompts = '{"Edema": {"positive": ["Wet."], "negative": ["Dry."]}}'
        (other,) = _ask(client, "classify", None, prompts=prompts)["findings"]
        assert other["evaluated"] is None
        answer = _ask(client, "classify", blank)
        assert not any(one["calibrated"] for one in answer["findings"])
        assert {one["flagged"] for one in answer["findings"]} == {None}


def test_an_added_image_is_known_to_the_index(service: Service) -> None:
    image = service.embed(np.full((1, 80, 80), 0.5, np.float32))
    assert image.unlike is not None
    labels = rows_of(service, image, []).image.labels[0]
    assert labels["model.unlike"] == pytest.approx(image.unlike.share)
    assert labels["model.unlike"] > 1
