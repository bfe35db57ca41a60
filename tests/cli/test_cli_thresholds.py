"""``cxrtext calibrate`` by labels that reports gave."""

import json
import shutil
from pathlib import Path

from tests.cli.conftest import cxrtext


def test_given_labels_calibrate_and_do_not_say_how_good_it_is(
    checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    own, prompts = Path(shutil.copytree(checkpoint, tmp_path / "own")), tmp_path / "prompts.yaml"
    prompts.write_text(
        "Pneumothorax: {positive: Right pneumothorax., negative: The lungs are clear.}\n"
    )
    labels = data_folder / "labels.csv"
    asked = ("calibrate", own, "--data", data_folder, "--prompts", prompts, "--labels", labels)
    assert "Pneumothorax" in cxrtext(*asked).stdout
    assert not (own / "how-good.json").exists()
    kept = json.loads((own / "calibration.json").read_text())
    assert "Youden" in kept["findings"]["Pneumothorax"]["points"]
