"""A report against an image, and the likelihood of sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from cxrtext.models import load_model
from cxrtext.service import Service

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
        assert "--calibrate" in one["reason"]


def test_what_verdicts_rest_on(judged_checkpoint: Path, data_folder: Path, serve: Any) -> None:
    png = (data_folder / "images/s01.png").read_bytes()
    with serve(Service(load_model(judged_checkpoint))) as judging:
        data = {"report": "Pleural effusion. Possible pneumothorax."}
        response = judging.post("/v1/verify", files={"image": png}, data=data)
    assert response.status_code == 200, response.text
    effusion, possible = response.json()["sentences"]
    assert effusion["verdict"] in ("supported", "weak", "unsupported")
    assert effusion["reason"] is None
    basis = effusion["basis"]
    assert (basis["finding"], basis["test"]) == ("effusion", "presence")
    assert basis["auc"] >= 0.75
    assert min(basis["true_images"], basis["false_images"]) >= 19
    assert basis["unsupported_below"] is not None
    assert 0 <= basis["true_unsupported"] <= 0.2
    assert (possible["verdict"], possible["basis"]) == ("not judged", None)
    assert "uncertain" in possible["reason"]


def test_places_and_scores_are_those_of_grounding(client: TestClient) -> None:
    data = {"image_id": "images/s01.png"}
    verified = client.post("/v1/verify", data={**data, "report": REPORT, "threshold": 0.1}).json()
    for one in verified["sentences"]:
        form = {**data, "sentence": one["sentence"], "threshold": 0.1}
        ground = client.post("/v1/ground", data=form).json()
        assert verified["region"] == ground["region"]
        assert one["peak"] == ground["peak"]
        assert one["threshold"] == ground["threshold"] == 0.1
        assert one["score"] == pytest.approx(ground["score"], abs=1e-4)
        np.testing.assert_allclose(one["grid"], ground["grid"], atol=1e-5)
        assert [box["bbox"] for box in one["boxes"]] == [box["bbox"] for box in ground["boxes"]]


def test_an_uploaded_image_is_verified(client: TestClient, png: bytes) -> None:
    response = client.post("/v1/verify", files={"image": png}, data={"report": "Effusion."})
    assert response.status_code == 200
    (one,) = response.json()["sentences"]
    assert (one["section"], one["start"], one["end"]) == ("report", 0, 9)


@pytest.mark.parametrize(
    ("report", "detail"),
    [
        ("", "see errors"),
        ("   ", ""),
        ("INDICATION: Cough.", ""),
        ("e" * 20_001, "see errors"),
        ("Effusion. " * 1999, ""),
    ],
)
def test_a_report_that_cannot_be_verified(
    client: TestClient, check_problem: Any, report: str, detail: str
) -> None:
    data = {"image_id": "images/s01.png", "report": report}
    body = check_problem(client.post("/v1/verify", data=data), 422, detail)
    assert "Cough" not in str(body)


def test_verify_wants_an_image(client: TestClient, check_problem: Any) -> None:
    check_problem(client.post("/v1/verify", data={"report": "Effusion."}), 422, "give an image")
