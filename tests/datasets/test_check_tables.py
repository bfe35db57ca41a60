"""Tables that are wrong as a whole, the rows of Parquet, and images that lie turned or mirrored."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cxrtext.datasets.checking import CheckReport, check_data
from cxrtext.datasets.importing.reading import read_rows
from cxrtext.errors import DataError
from cxrtext.records import write_table
from tests.datasets.written import save_radiograph, save_table


def write_folder(folder: Path, **tables: str) -> Path:
    """Two images of two studies, and other files as text."""
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(5)
    for name in "ab":
        gray = rng.integers(0, 255, (70, 80)).astype(np.uint8)
        Image.fromarray(gray).save(folder / f"images/{name}.png")
    manifest = "image,study_id,patient_id,view\nimages/a.png,s1,p1,PA\nimages/b.png,s2,p2,PA\n"
    files = {"manifest.csv": manifest, "reports.csv": "study_id,report\ns1,Clear.\ns2,Clear lungs."}
    files |= {name.replace("_", "."): text for name, text in tables.items()}
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def check(folder: Path) -> tuple[CheckReport, dict[str, list[str]]]:
    report = check_data(folder)
    return report, {problem.kind.code: problem.examples for problem in report.problems}


BOX = "image,label_text,x,y,w,h"


@pytest.mark.parametrize(
    ("tables", "code", "says"),
    [
        ({"reports_csv": "sentence\nClear."}, "table-unreadable", "holds sentences"),
        ({"reports_csv": "study_id,report\nz,Clear."}, "none-joined", "reports: 1 rows"),
        ({"reports_csv": "study_id,report\ns1,Clear."}, "study-without-report", "row 2 of the man"),
        ({"labels_csv": "study,Edema\ns1,1"}, "table-unreadable", "'study_id' is missing"),
        ({"labels_csv": "study_id,Gout\ns1,1\ns2,0"}, "no-known-finding", "labels.csv"),
        ({"labels_csv": "study_id,Edema\nz,1\ny,0"}, "none-joined", "labels: 2 rows"),
        ({"boxes_json": "{"}, "table-unreadable", "not readable JSON"),
        ({"boxes_csv": "image,label_text,x,y,w\na,b,1,1,1"}, "table-unreadable", "'h' is missing"),
        ({"boxes_csv": f"{BOX}\na.png,Haze.,60,1,40,4"}, "box-wrong", "box 1 (a.png): it reaches"),
    ],
)
def test_fault_of_a_whole_table(
    tmp_path: Path, tables: dict[str, str], code: str, says: str
) -> None:
    report, problems = check(write_folder(tmp_path / "set", **tables))
    assert says in problems[code][0]
    assert report.has_failed() == (code != "study-without-report")
    assert report.summary["images read"] == 2


def test_no_reports_at_all_is_a_warning_and_the_manifest_may_hold_them(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set")
    (folder / "reports.csv").unlink()
    report, problems = check(folder)
    assert "no-reports" in problems
    assert report.has_failed(strict=True)
    assert not report.has_failed()
    (folder / "manifest.csv").write_text(
        "image,study_id,patient_id,split,report\n"
        "images/a.png,s1,p1,train,No effusion.\nimages/b.png,s2,p2,train,\n"
    )
    report, problems = check(folder)
    assert problems["empty-split"] == ["val", "test"]
    assert problems["report-without-sentence"] == ["row 2"]
    assert report.summary["reports"] == 2


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ("image,study\na,b\n", "column 'study_id' is missing"),
        ("image,study_id\n", "has no rows"),
        ("image,study_id,image\na,b,c\n", "occurs more than once"),
    ],
)
def test_manifest_of_no_use_is_refused(tmp_path: Path, manifest: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        check(write_folder(tmp_path / "set", manifest_csv=manifest))


def test_nothing_to_check_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no manifest\.csv"):
        check_data(tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        check_data(tmp_path / "gone")


def test_boxes_are_found_where_evaluation_finds_them(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set")
    box = {"image": "images/a.png", "label_text": "Haze.", "x": 1, "y": 1, "w": 4, "h": 4}
    write_table(folder / "boxes.parquet", list(box), [box])
    assert check(folder)[0].summary["boxes"] == 1


def test_a_column_of_an_imported_set_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("image,view, view \na.png,LATERAL,PA\n")
    with pytest.raises(DataError, match=r"train\.csv: column 'view' occurs more than once"):
        list(read_rows(path))
    path.write_text("image,view,,\na.png,PA,,\n")  # columns without a name may be several
    assert [row[1]["view"] for row in read_rows(path) if isinstance(row, tuple)] == ["PA"]


HEADERS: dict[str, dict[str, object]] = {
    "upright": {"PatientOrientation": ["L", "F"], "BurnedInAnnotation": "NO"},
    "mirrored": {"PatientOrientation": ["R", "F"]},
    "turned": {"PatientOrientation": ["F", "R"]},
    "cosines": {"ImageOrientationPatient": [-1, 0, 0, 0, 0, -1]},
    "oblong": {"ImagerPixelSpacing": [0.1, 0.2]},
    "text": {"BurnedInAnnotation": "YES"},
}


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    folder = tmp_path_factory.mktemp("set")
    rows, boxes = [], []
    for number, (name, header) in enumerate(HEADERS.items()):
        noise = np.random.default_rng(number).integers(40, 215, (90, 120), dtype=np.uint8)
        window = {"WindowCenter": "128", "WindowWidth": "256"}
        save_radiograph(folder / f"{name}.dcm", "1.2.3", noise, **window, **header)
        ids = {"image": f"{name}.dcm", "study_id": f"s{number}", "patient_id": f"p{number}"}
        rows.append({**ids, "split": "train", "view": "PA"})
        place = {"x": 100, "y": 60, "w": 20, "h": 30, "width": 120, "height": 90}
        boxes.append({"image": f"{name}.dcm", "label_text": "Edema.", **place})
    save_table(folder / "manifest.csv", rows)
    save_table(folder / "boxes.csv", boxes)
    return check_data(folder)


def test_text_in_the_picture_is_listed(turned: CheckReport) -> None:
    (problem,) = (one for one in turned.problems if one.kind.code == "burned-in")
    assert [example.split(".")[0] for example in problem.examples] == ["text"]


def test_boxes_on_the_stored_pixels_are_right(turned: CheckReport) -> None:
    codes = {problem.kind.code for problem in turned.problems}
    assert not codes & {"box-wrong", "box-image-resized"}
    assert turned.summary["images read"] == len(HEADERS)
