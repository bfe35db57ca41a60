"""A week beside its reference, in numbers and on the page; and whose threshold an answer has."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from cxrtext.evaluation.classification.calibration import OperatingPoint
from cxrtext.evaluation.drift import distribution_of
from cxrtext.service import Service
from cxrtext.service.watch import Watch
from cxrtext_api.settings import Settings
from tests.api.conftest import drawn, serving
from tests.service.conftest import calibration_of


def test_a_week_of_other_images_is_said(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = distribution_of(np.linspace(200.0, 300.0, 100).tolist())
    assert far is not None
    made = calibration_of(service.model.fingerprint, service.prompts, scale=1.0, shift=0.0)
    service.calibration = made.model_copy(update={"watched": {"gray mean": far}})
    monkeypatch.setattr("cxrtext.service.watch.FEWEST", 3)
    days = [date(2026, 11, 23)]
    with serving(service, Settings(watch=tmp_path / "watch.json")) as client:
        watch: Watch = client.app.state.resources.watch
        monkeypatch.setattr(watch, "_today", lambda: days[-1])
        for seed in range(40):
            file = {"image": ("x.png", drawn(seed))}
            assert client.post("/v1/classify", files=file).status_code == 200
        assert client.get("/v1/model").json()["week"]["week"] == ""
        days.append(days[-1] + timedelta(days=7))
        week = client.get("/v1/model").json()["week"]
        assert week == {"week": "2026-W48", "images": 40, "unlike": ["gray mean"]}
        (line,) = [one for one in client.get("/metrics").text.splitlines()
                   if one.startswith('cxrtext_drift{signal="gray mean"}')]  # fmt: skip
        assert float(line.split()[-1]) > 1
    assert (tmp_path / "watch.json").exists()


def test_an_answer_says_whose_threshold_it_has(service: Service) -> None:
    share = (0.9, 0.8, 0.95)
    low, high = (
        OperatingPoint(threshold=at, sensitivity=share, specificity=share) for at in (-99.0, 99.0)
    )
    service.calibration = calibration_of(
        service.model.fingerprint, service.prompts, scale=1.0, shift=0.0,
        points={"Youden": high}, groups={"age=40": low, "age=41": None},
    )  # fmt: skip
    with serving(service) as client:
        for name, group, flagged in (
            ("images/s00.png", "age=40", True),
            ("images/s01.png", "pooled", False),
        ):
            found = client.post("/v1/classify", data={"image_id": name}).json()["findings"]
            assert {(one["group"], one["flagged"]) for one in found} == {(group, flagged)}
