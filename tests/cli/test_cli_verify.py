import json
from contextlib import closing
from pathlib import Path

import pytest

from cxrtext.models.reference import REFERENCE
from cxrtext.service import load_service
from tests.cli.conftest import cxrtext
from tests.conftest import read_csv

REPORT = "FINDINGS: Left pleural effusion. No right pneumothorax."


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.txt"
    path.write_text(REPORT)
    return path


@pytest.mark.parametrize("name", ["out.csv", "out.html"])
def test_a_table_of_sentences_and_files(
    report: Path, checkpoint: Path, image: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    done = cxrtext("verify", checkpoint, image, report, "--out", out)
    assert f"written: {out}" in done.stderr
    assert "Left pleural effusion." in out.read_text()
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["support", "verdict", "wording", "score", "section", "sentence"]
    assert lines[2].endswith("Left pleural effusion.")
    assert " negated " in lines[3]
    assert "percentile among 8 images kept with the checkpoint" in lines[4]


def test_json_from_standard_input(checkpoint: Path, image: Path) -> None:
    asked = ("verify", checkpoint, image, "-", "--json")
    done = cxrtext(*asked, text=REPORT.encode("utf-8-sig"))
    value = json.loads(done.stdout)
    assert value["reference"] == {"source": "validation", "images": 8}
    first = value["sentences"][0]
    assert REPORT[first["start"] : first["end"]] == first["sentence"] == "Left pleural effusion."
    assert len(first["grid"]) == 4
    assert "Left pleural" not in done.stderr


def test_what_verdicts_rest_on(
    report: Path, judged_checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    report.write_text("Pleural effusion. Left effusion.")
    with closing(load_service(judged_checkpoint)) as service:
        image = next(  # the first that the small model is sure of
            path
            for path in sorted((data_folder / "images").glob("*.png"))
            if service.verify(service.embed_file(path), "Effusion.").sentences[0].verdict
            == "unsupported"
        )
    asked = ("verify", judged_checkpoint, image, report)
    done = cxrtext(*asked, "--out", out)
    assert "unsupported: pleural effusion: evidence " in done.stdout
    effusion, _ = read_csv(out)
    assert (effusion["verdict"], effusion["finding"]) == ("unsupported", "pleural effusion")
    assert float(effusion["evidence"]) < float(effusion["unsupported_below"])
    basis = json.loads(cxrtext(*asked, "--json").stdout)["sentences"][0]["basis"]
    assert basis["true_images"] == 40


def test_reports_alone_are_enough(checkpoint_copy: Path, data_copy: Path) -> None:
    (data_copy / "labels.csv").unlink()
    made = cxrtext("calibrate", checkpoint_copy, "--data", data_copy)
    assert (checkpoint_copy / "verdicts.json").exists()
    assert not (checkpoint_copy / "calibration.json").exists()
    assert "left out: " in made.stdout


def test_without_a_reference_it_says_so(
    report: Path, checkpoint: Path, checkpoint_copy: Path, data_folder: Path, image: Path
) -> None:
    bare = checkpoint_copy
    (bare / REFERENCE).unlink()
    done = cxrtext("verify", bare, image, report)
    assert "no reference images" in done.stdout
    made = cxrtext("calibrate", bare, "--data", data_folder, "--keep-reference")
    assert f"{bare / REFERENCE}: 8 validation images" in made.stderr
    assert (bare / REFERENCE).read_bytes() == (checkpoint / REFERENCE).read_bytes()
    done = cxrtext("verify", bare, image, report)
    assert "among 8 images" in done.stdout


def test_calibrated_probabilities(
    checkpoint_copy: Path, data_folder: Path, tmp_path: Path, image: Path
) -> None:
    folder, prompts = checkpoint_copy, tmp_path / "prompts.yaml"
    prompts.write_text(
        "Pneumothorax: {positive: Right pneumothorax., negative: The lungs are clear.}\n"
    )
    asked = ("classify", folder, image, "--prompts", prompts, "--json")
    before = json.loads(cxrtext(*asked).stdout)[0]["Pneumothorax"]
    calibrate = ("calibrate", folder, "--data", data_folder, "--prompts", prompts)
    cxrtext(*calibrate, "--labels", data_folder / "labels.csv")
    assert not (folder / "how-good.json").exists()  # labels that were given do not say it
    kept = json.loads((folder / "calibration.json").read_text())
    assert "Youden" in kept["findings"]["Pneumothorax"]["points"]
    made = cxrtext(*calibrate)
    assert str(folder / "calibration.json") in made.stdout
    assert str(folder / "verdicts.json") in made.stdout
    assert "no finding judged by 8 validation images" in made.stderr  # too few
    judged = cxrtext("verify", folder, image, "-", text=REPORT.encode())
    assert (
        "not judged (1): pleural effusion" in judged.stdout or "names no finding" in judged.stdout
    )
    after = json.loads(cxrtext(*asked).stdout)[0]["Pneumothorax"]
    assert after != before
