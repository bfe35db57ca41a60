"""Which group's threshold an answer has."""

from cxrtext.evaluation.classification.calibration import OperatingPoint
from cxrtext.service import Service
from tests.api.conftest import serving
from tests.service.conftest import calibration_of


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
