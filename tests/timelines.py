"""Patients with several films, whose dates give an order or, each in its own way, give none."""

import csv
from pathlib import Path

from PIL import Image

from tests.conftest import draw

Row = dict[str, str]


def _film(study: str, acquired: str = "", view: str = "PA", **more: str) -> Row:
    return {"study_id": study, "acquired": acquired, "view": view, **more}


PATIENTS: dict[str, list[Row]] = {
    # Listed out of order; the second study has a frontal and a lateral film.
    "in order": [
        _film("c", "2020-03-01T08:00:00"),
        _film("a", "2019-12-30T23:50:00"),
        _film("b", "2020-01-02T07:00:00"),
        _film("b", "2020-01-02T07:01:00", "lateral"),
        _film("d", "2020-03-01T09:30:00"),
        _film("e", "2021-03-01T09:30:00", "lateral"),
    ],
    "shifted alike": [
        _film("f", "2180-05-06", dates="shifted"),
        _film("g", "2180-05-09", dates="shifted"),
    ],
    "in sequence": [_film("h", follow_up="2"), _film("i", follow_up="0")],
    "by days": [
        _film("2", days_since_first="31.5"),
        _film("3", "2021", days_since_first="31.75"),
        _film("4", days_since_first="0"),
    ],
    "one study": [_film("j"), _film("j", view="lateral")],
    "removed": [_film("k", "2020-01-01", dates="removed"), _film("l", "2020-02-01")],
    "modified": [
        _film("m", "2020-01-01", dates="modified"),
        _film("n", "2020-02-01", dates="modified"),
    ],
    "one shifted": [_film("o", "2020-01-01", dates="shifted"), _film("p", "2020-02-01")],
    "by years": [_film("q", "2020"), _film("r", "2021")],
    "undated": [_film("s", "2020-01-01"), _film("t")],
    "study torn": [_film("u", "2020-01-01"), _film("u", "2020-04-01"), _film("v", "2020-02-01")],
    "ages contradict": [_film("w", "2020-01-01", age="50"), _film("x", "2020-02-01", age="54")],
    "one day": [_film("y", "2020-01-01"), _film("z", "2020-01-01T10:00:00")],
    "one number": [_film("0", follow_up="0"), _film("0", follow_up="1"), _film("1", follow_up="1")],
}
REASONS = {
    "removed": "were removed",
    "modified": "whether all of this patient's by the same number of days",
    "one shifted": "some of this patient's dates were shifted, and some not",
    "by years": "only the year is known of 2 of 2 films",
    "undated": "no day is known of 1 of 2 films",
    "study torn": "91 days apart: dates were shifted unequally",
    "ages contradict": "ages 4 years apart: dates were shifted unequally",
    "one day": "two studies are of one day",
    "one number": "no day is known of 3 of 3 films",
}


def image_of(patient: str, number: int) -> str:
    return f"images/{patient.replace(' ', '-')}-{number}.png"


def write_timelines(folder: Path) -> Path:
    """A manifest of these patients, with drawn images; every later one of a patient has a bright
    corner."""
    (folder / "images").mkdir(parents=True)
    rows: list[Row] = []
    for patient, films in PATIENTS.items():
        for number, film in enumerate(films):
            image = image_of(patient, number)
            kind = "clear" if film["study_id"] in "afhb" else "effusion"
            Image.fromarray(draw(kind, len(rows))).save(folder / image)
            rows.append({"image": image, "patient_id": patient, "split": "test", "age": "",
                         "dates": "", "follow_up": "", "days_since_first": "", **film})  # fmt: skip
    with (folder / "manifest.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "manifest.csv"
