import json
import shutil
from contextlib import closing
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from cxrtext.errors import CheckpointError, DataError
from cxrtext.evaluation import CHEX5_PROMPTS, Evaluation, Prompts, Settings, evaluate
from cxrtext.evaluation.calibrate import calibration_of
from cxrtext.evaluation.classification.calibration import (
    CALIBRATION,
    KeptCalibration,
    OperatingPoint,
)
from cxrtext.evaluation.rows import OPERATING, YOUDEN, ZERO_SHOT
from cxrtext.files import SEAL, write_sealed
from cxrtext.index import make_index, open_index
from cxrtext.index.labels import prompts_of_json
from cxrtext.metrics.calibration import Calibration
from cxrtext.models import load_model
from cxrtext.service import FindingScore, load_service
from cxrtext.service.answers import calibrated
from tests.service.conftest import calibration_of as made_up

EFFUSION = Prompts(("Left pleural effusion.",), ("The lungs are clear.",))
PROMPTS = {
    "Pleural Effusion": EFFUSION,
    "Pneumothorax": Prompts(("Right pneumothorax.",), ("The lungs are clear.",)),
}
KEPT = made_up(
    "f" * 64, {"Effusion": EFFUSION}, scale=2.0, shift=-1.0,
    error_before=0.3, error_after=0.1, auc=(0.9, 0.8, 0.95),
    points={
        YOUDEN: OperatingPoint(
            threshold=1.0, sensitivity=(0.8, 0.7, 0.9), specificity=(0.9, 0.8, 0.95)
        )
    },
)  # fmt: skip


def test_probabilities_of_calibrated_prompts_and_of_no_others_by_hand() -> None:
    asked = [FindingScore("Effusion", 0.73, 1.0), FindingScore("Edema", 0.5, 2.0)]
    prompts = {"Effusion": EFFUSION, "Edema": EFFUSION}
    effusion, edema = calibrated(asked, KEPT, prompts)
    assert effusion.probability == pytest.approx(0.7310585786)  # logistic of 2 · 1 − 1
    assert (effusion.calibrated, effusion.score) == (True, 1.0)
    assert (effusion.flagged, edema.flagged) == (False, None)
    assert calibrated([replace(asked[0], score=1.001)], KEPT, prompts)[0].flagged is True
    assert edema == asked[1]
    other = Prompts(EFFUSION.positive, ("No effusion.",))
    assert calibrated(asked[:1], KEPT, {"Effusion": other}) == asked[:1]
    assert calibrated(asked[:1], None, {"Effusion": EFFUSION}) == asked[:1]
    by_head = [replace(asked[0], by_head=True)]  # scores of another scale
    assert calibrated(by_head, KEPT, {"Effusion": EFFUSION}) == by_head


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    KEPT.save(tmp_path)
    assert KeptCalibration.load(tmp_path, KEPT.fingerprint) == KEPT
    with pytest.raises(CheckpointError, match="another model"):
        KeptCalibration.load(tmp_path, "0" * 64)


DAMAGE = {
    "version": 1, "findings": None, "measured": 3, "prompts": {"Effusion": {"positive": ["x"]}},
}  # fmt: skip
DAMAGED_FINDING = [
    ("scale", -1.0), ("scale", "2"), ("shift", None), ("other", 1), ("auc", [0.9, 0.8]),
    ("auc", [0.9, 0.8, 1.1]), ("auc", 0.9), ("points", {"Youden": {"threshold": 1.0}}),
]  # fmt: skip


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = KEPT.save(tmp_path)
    good = json.loads(path.read_text())
    bad = [{**good, key: value} for key, value in DAMAGE.items()]
    one = good["findings"]["Effusion"]
    bad += [
        {**good, "findings": {"Effusion": {**one, key: value}}} for key, value in DAMAGED_FINDING
    ]
    for text in ("{", "[]", *map(json.dumps, bad)):
        path.write_text(text)
        with pytest.raises(CheckpointError, match="cxrtext calibrate"):
            KeptCalibration.load(tmp_path, KEPT.fingerprint)
    for values in bad:  # what is wrong is found under a seal as well
        write_sealed(path, {key: value for key, value in values.items() if key != SEAL})
        with pytest.raises(CheckpointError, match="cxrtext calibrate"):
            KeptCalibration.load(tmp_path, KEPT.fingerprint)


@pytest.fixture(scope="module")
def evaluation(checkpoint: Path, data_folder: Path) -> Evaluation:
    return evaluate(checkpoint, data_folder, prompts=PROMPTS, settings=Settings())


def test_an_evaluation_gives_a_calibration(
    checkpoint: Path, evaluation: Evaluation, tmp_path: Path
) -> None:
    kept, (line,) = calibration_of(evaluation)
    assert "Pleural Effusion: no validation images with and without it" in line
    assert kept.measured == ("test", 12)
    (one,) = kept.findings.values()
    assert (one.positives, one.negatives) == (4, 4)
    fit = evaluation.scores["Pneumothorax"].fit
    assert fit is not None
    assert (one.scale, one.shift) == (fit.platt.scale, fit.platt.shift)
    assert one.error_after == evaluation.rows.value(ZERO_SHOT, "Pneumothorax", "ECE Platt")
    assert kept.prompts == PROMPTS
    assert list(one.points) == [YOUDEN, "sensitivity 0.95"]
    point = one.points[YOUDEN]
    assert point.threshold == fit.threshold
    assert point.specificity is None  # twelve images are not enough
    assert not (checkpoint / CALIBRATION).exists()
    assert KeptCalibration.beside(load_model(checkpoint)) is None
    shutil.copytree(checkpoint, tmp_path / "checkpoint")
    kept.save(tmp_path / "checkpoint")
    model = load_model(tmp_path / "checkpoint")
    assert KeptCalibration.beside(model) == kept
    assert model.fingerprint == load_model(checkpoint).fingerprint


def test_groups_with_enough_images_have_points_of_their_own(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an image of one is judged by that; where they are few it is pooled."""
    details = evaluation.details
    assert details is not None
    views = cycle(["AP"] * 12 + ["PA"] * 12)  # both have validation images of either class
    records = [replace(one, metadata={"view": next(views)}) for one in details.folder.records]
    viewed = replace(
        evaluation, details=replace(details, folder=replace(details.folder, records=records))
    )
    (few,) = calibration_of(viewed)[0].findings.values()
    assert few.groups == {"view=AP": None, "view=PA": None}
    assert few.point_of({"view": "AP"}) == ("pooled", few.points[YOUDEN])
    monkeypatch.setattr("cxrtext.evaluation.calibrate.FEW", 1)
    monkeypatch.setattr("cxrtext.evaluation.calibrate.WIDEST", 1.0)
    kept = calibration_of(viewed)[0]
    (one,) = kept.findings.values()
    name, point = one.point_of({"sex": "F", "view": "PA"})
    assert name == "view=PA"
    assert point is not None
    assert point.sensitivity is not None
    pooled = one.points[YOUDEN]
    assert point.threshold != pooled.threshold
    share = evaluation.rows.find(f"{OPERATING}, {YOUDEN}", "Pneumothorax", "PPV")
    assert share is not None
    assert pooled.ppv == (share.value, share.low, share.high)
    between = (point.threshold + pooled.threshold) / 2
    asked = [FindingScore("Pneumothorax", 0.5, between)]
    thresholds = {"PA": ("view=PA", point.threshold), "lateral": ("pooled", pooled.threshold)}
    for view, (of, threshold) in thresholds.items():
        (found,) = calibrated(asked, kept, PROMPTS, {"view": view})
        assert (found.group, found.flagged) == (of, between > threshold)


def test_a_checkpoint_answers_by_its_own_prompts_unless_told_otherwise(
    checkpoint: Path, data_folder: Path, evaluation: Evaluation, tmp_path: Path
) -> None:
    own = shutil.copytree(checkpoint, tmp_path / "own")
    calibration_of(evaluation)[0].save(own)
    with closing(load_service(own)) as service:
        image = service.embed_file(data_folder / "images/s02.png")
        found = {one.finding: one for one in service.classify(image)}
        (told,) = service.classify(image, {"Pneumothorax": CHEX5_PROMPTS["Pneumothorax"]})
    assert service.prompts == PROMPTS  # also of the finding that could not be calibrated
    assert found["Pneumothorax"].calibrated
    assert found["Pneumothorax"].flagged is not None
    assert not found["Pleural Effusion"].calibrated
    assert (told.calibrated, told.flagged) == (False, None)
    asked = evaluate(own, data_folder, settings=Settings())
    assert asked.details is not None
    assert asked.details.prompts == PROMPTS
    made = make_index(own, tmp_path / "index").as_dict()
    with closing(open_index(tmp_path / "index")) as archive:
        assert prompts_of_json(archive.snapshot.meta["prompts"]) == PROMPTS
    assert made["images"] == 0


def test_what_cannot_be_calibrated(evaluation: Evaluation) -> None:
    with pytest.raises(DataError, match="no finding can be calibrated"):
        calibration_of(replace(evaluation, scores={}))


def test_a_finding_that_is_ranked_wrongly_is_left_out(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = evaluation.scores
    one = scores["Pneumothorax"]
    assert one.fit is not None
    turned = replace(one, fit=replace(one.fit, platt=Calibration(-1.0)))
    monkeypatch.setitem(scores, "Pneumothorax", turned)
    monkeypatch.setitem(scores, "Pleural Effusion", one)
    kept, (line,) = calibration_of(evaluation)
    assert list(kept.findings) == ["Pleural Effusion"]
    assert "Pneumothorax: its scores rank validation images wrongly" in line
