"""``cxrtext calibrate`` by films that people read, and by reports' labels that they checked."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Refused, cxrtext
from tests.conftest import read_csv

PROMPTS = "Pneumothorax: {positive: Right pneumothorax., negative: The lungs are clear.}\n"


@pytest.fixture
def asked(checkpoint: Path, data_folder: Path, tmp_path: Path) -> tuple[str | Path, ...]:
    folder, prompts = shutil.copytree(checkpoint, tmp_path / "own"), tmp_path / "prompts.yaml"
    prompts.write_text(PROMPTS)
    return "calibrate", folder, "--data", data_folder, "--prompts", prompts


def test_films_are_drawn_and_their_marks_calibrate(
    asked: tuple[str | Path, ...], data_folder: Path, tmp_path: Path, refused: Refused
) -> None:
    drawn, own = tmp_path / "films.csv", Path(asked[1])
    about = ("--finding", "Pneumothorax", "--films", "10", "--split", "all")
    done = cxrtext(*asked, "--draw", drawn, *about)
    assert f"{drawn}: 10 films to read" in done.stdout
    assert not (own / "calibration.json").exists()
    rows = read_csv(drawn)
    assert {row["label"] for row in rows} == {""}
    marks = (*asked[:2], *asked[4:], "--marks", drawn)
    assert "no film with 1" in refused(*marks)
    truth = {row["study_id"]: row["Pneumothorax"] for row in read_csv(data_folder / "labels.csv")}
    for row in rows:
        row["label"] = truth[row["study_id"]]
    with drawn.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    done = cxrtext(*marks)
    assert "not enough" in done.stdout  # of ten films
    kept = json.loads((own / "calibration.json").read_text())
    assert kept["measured"] == ["marks", 10]
    (point,) = kept["findings"]["Pneumothorax"]["points"].values()
    assert (point["source"], point["threshold"]) == ("marks", 0.0)
    assert sum(kept["findings"]["Pneumothorax"][side] for side in ("positives", "negatives")) == 10
    drawn.write_text(drawn.read_text().replace(kept["fingerprint"], "0" * 64))
    assert "drawn for another model" in refused(*marks)


def test_labels_that_people_checked_are_corrected(
    asked: tuple[str | Path, ...], data_folder: Path
) -> None:
    own, labels = Path(asked[1]), data_folder / "labels.csv"
    done = cxrtext(*asked, "--labels", labels, "--checked", labels)
    assert "finding" in done.stdout
    assert not (own / "how-good.json").exists()  # reports' labels do not say how good it is
    kept = json.loads((own / "calibration.json").read_text())
    points = kept["findings"]["Pneumothorax"]["points"]
    assert {name: one["source"] for name, one in points.items()} == {"Youden": "corrected labels"}


def test_a_finding_is_named(
    asked: tuple[str | Path, ...], refused: Refused, tmp_path: Path
) -> None:
    assert "--finding" in refused(*asked, "--draw", tmp_path / "films.csv")
    done = cxrtext(*asked, "--draw", tmp_path / "films.csv", "--finding", "Edema", code=2)
    assert "'Edema' is none of Pneumothorax" in done.stderr
