"""``cxrtext label-reports``: labels as a data folder has them, with the sentences behind them."""

import csv
from pathlib import Path

from cxrtext.records.labels import read_labels
from tests.cli.conftest import cxrtext

REPORTS = """study_id,findings,impression
s1,"The heart is enlarged. Small left effusion.","No pneumothorax."
s2,"The lungs are clear. Possible nodule.",""
s3,"Kein Pleuraerguss. Herz normal groß.","=Kein Pneumothorax."
s4,"Heart size is normal.","Right effusion; left effusion. Pacemaker."
"""


def rows_of(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["study_id"], row["finding"]): row for row in csv.DictReader(file)}


def test_labels_and_sentences_are_written(tmp_path: Path) -> None:
    table, out = tmp_path / "reports.csv", tmp_path / "labels.csv"
    table.write_text(REPORTS, encoding="utf-8")
    done = cxrtext("label-reports", table, "--out", out)
    wanted = ("Cardiomegaly", "Pleural Effusion", "Nodule", "Pneumothorax", "No Finding")
    assert read_labels(out, wanted) == {
        "s1": dict(zip(wanted, (1, 1, None, 0, 0), strict=True)),
        "s2": dict(zip(wanted, (None, None, -1, None, 0), strict=True)),
        "s3": dict(zip(wanted, (0, 0, None, 0, 1), strict=True)),
        "s4": dict(zip(wanted, (0, 1, None, None, 0), strict=True)),
    }
    said = rows_of(tmp_path / "labels.evidence.csv")
    assert said["s1", "Pleural Effusion"]["sentence"] == "Small left effusion."
    assert said["s1", "Pleural Effusion"]["side"] == "left"
    assert said["s4", "Pleural Effusion"]["side"] == "both"
    assert said["s3", "Pneumothorax"]["sentence"] == "'=Kein Pneumothorax."
    assert ("s1", "Nodule") not in said
    text = done.stdout + done.stderr
    line = next(one for one in text.splitlines() if one.startswith("Pleural Effusion"))
    assert line.split()[2:] == ["2", "0", "1", "1"]
    assert "by language: en 100 %, de 100 %" in text
    assert "left effusion" not in text
