"""Public sets in miniature, of invented people, in the layouts that they come in."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cxrtext.datasets.importing import ImportOptions, ImportSummary, import_folder
from cxrtext.errors import DataError
from cxrtext.evaluation.data import read_data_folder
from cxrtext.records import Absent, Box, iter_boxes, read_labels
from tests.datasets import public_sets
from tests.datasets.imported import drawn_boxes, import_beside
from tests.datasets.public_sets import mimic, save_picture
from tests.datasets.written import load_table, save_table


def load(folder: Path, **options: Any) -> tuple[ImportSummary, list[dict[str, str]]]:
    """Import into a folder beside; what was counted, and the manifest.  It must read as a whole."""
    summary, rows, _ = import_beside(folder, **options)
    data = read_data_folder(folder.parent / "out")
    assert all(record.path.is_file() for record in data.records)
    return summary, rows


def test_mimic_with_its_split_reports_and_labels(tmp_path: Path) -> None:
    root = mimic(tmp_path / "set")
    summary, rows = load(root)
    assert [(row["study_id"], row["patient_id"], row["split"], row["view"]) for row in rows] == [
        ("50414267", "10000032", "train", "PA"),
        ("57375967", "10000764", "val", "AP"),
        ("51967845", "11000011", "test", ""),
    ]
    assert rows[0]["image"] == "images/files/p10/p10000032/s50414267/aa-1.jpg"
    assert (summary.reports, summary.studies_without_report, summary.labelled) == (3, 0, 2)
    assert summary.findings == {"Edema": 2}
    labels = read_labels(tmp_path / "out/labels.csv")
    assert (labels["50414267"]["Edema"], labels["50414267"]["Pneumonia"]) == (1, -1)
    assert summary.set_aside == {"lateral view": 1, "listed, but the image file is not there": 1}


def test_mimic_of_dicom_files_and_gzipped_tables(tmp_path: Path) -> None:
    root = mimic(tmp_path / "set", ".png")
    for name in ("metadata", "split", "chexpert"):
        path = root / f"mimic-cxr-2.0.0-{name}.csv"
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    for path in root.rglob("*.png"):
        path.rename(path.with_suffix(".dcm"))
    _, rows = load(root, keep=("rows", "acquired"))
    assert [row["image"].rpartition("/")[2] for row in rows] == ["aa-1.dcm", "bb-1.dcm", "cc-1.dcm"]
    assert rows[0]["rows"] == "64"
    assert (rows[0]["acquired"], rows[0]["dates"]) == ("2180-05-06T21:30:14", "shifted")


@pytest.mark.parametrize("name", ["metadata", "split"])
def test_mimic_without_a_table(tmp_path: Path, name: str) -> None:
    root = mimic(tmp_path / "set")
    (root / f"mimic-cxr-2.0.0-{name}.csv").unlink()
    with pytest.raises(DataError, match=f"mimic-cxr-2.0.0-{name}.csv .* is missing; MIMIC-CXR-JPG"):
        import_folder(root, tmp_path / "out")


def test_ms_cxr_boxes_are_joined_by_dicom_id(tmp_path: Path) -> None:
    root = mimic(tmp_path / "set")
    coco = {
        "images": [
            {"id": 7, "file_name": "aa-1.jpg", "width": 3056, "height": 2544},
            {"id": 8, "file_name": "zz-9.jpg", "width": 3056, "height": 2544},
        ],
        "categories": [{"id": 3, "name": "Edema"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "label_text": "A."},
            {"id": 2, "image_id": 8, "category_id": 3, "bbox": [1, 2, 30, 40], "label_text": "B."},
            {"id": 3, "image_id": 5, "category_id": 3, "bbox": [1, 2, 30, 40], "label_text": "C."},
        ],
    }
    (root / "MS_CXR_Local_Alignment_v1.1.0.json").write_text(json.dumps(coco))
    summary, rows = load(root)
    assert (summary.boxes, summary.boxes_without_image, summary.damaged) == (1, 1, 1)
    assert drawn_boxes(tmp_path / "out/boxes.json") == [
        Box(rows[0]["image"], 3056, 2544, "Edema", "A.", (1, 2, 30, 40))
    ]


def test_masks_and_phrases_without_a_box_are_kept(tmp_path: Path) -> None:
    root = mimic(tmp_path / "set")
    table = tmp_path / "boxes.csv"
    mask = '{""size"": [2, 3], ""counts"": [1, 2, 3]}'
    table.write_text(
        "image,label_text,finding,x,y,w,h,segmentation\n"
        f'aa-1.jpg,A.,Edema,0,0,2,2,"{mask}"\naa-1.jpg,B.,Edema,,,,,\nzz-9.jpg,C.,Edema,,,,,\n'
    )
    summary = import_folder(root, tmp_path / "out", ImportOptions(boxes=table))
    assert (summary.boxes, summary.absent, summary.boxes_without_image) == (1, 1, 1)
    name = load_table(tmp_path / "out/manifest.csv")[0]["image"]
    assert list(iter_boxes(tmp_path / "out/boxes.json")) == [
        Box(name, 3, 2, "Edema", "A.", (0, 0, 2, 2), (1, 2, 3)),
        Absent(name, 3, 2, "Edema", "B."),
    ]


def test_chexpert(tmp_path: Path) -> None:
    root = tmp_path / "CheXpert-v1.0-small"
    frontal = {"Frontal/Lateral": "Frontal", "Sex": "Female", "Age": "58", "AP/PA": "AP",
               "Edema": "", "Pleural Effusion": ""}  # fmt: skip
    lateral = {**frontal, "Frontal/Lateral": "Lateral", "AP/PA": ""}
    first, second = "train/patient00001/study1/view", "train/patient00002/study1/view"
    other = "valid/patient64541/study1/view1_frontal.jpg"
    place = "CheXpert-v1.0-small/"
    save_table(root / "train.csv", [
        {"Path": f"{place}{first}1_frontal.jpg", **frontal, "Edema": "1.0"},
        {"Path": f"{place}{first}2_lateral.jpg", **lateral},
        {"Path": f"{place}{first}3_frontal.jpg", **frontal, "AP/PA": "LL", "Edema": "1.0"},
        {"Path": "../../etc/passwd", **frontal},
        {"Path": f"{place}{first}9_frontal.jpg", **frontal},
        {"Path": f"x/{second}1_frontal.jpg", **frontal, "Edema": "maybe"},
    ])  # fmt: skip
    save_table(root / "valid.csv", [{"Path": other, **frontal, "AP/PA": "PA"}])
    for name in (f"{first}1_frontal.jpg", f"{first}3_frontal.jpg", f"{second}1_frontal.jpg", other):
        save_picture(root / name)
    summary, rows = load(root, keep=("age", "sex"))
    study, who = ("patient00001-study1", "patient00001", "train"), ("58", "F")
    assert [tuple(row.values()) for row in rows] == [
        (f"images/{first}1_frontal.jpg", *study, "AP", *who),
        (f"images/{first}3_frontal.jpg", *study, "frontal", *who),
        (f"images/{other}", "patient64541-study1", "patient64541", "val", "PA", *who),
    ]
    assert summary.set_aside == {
        "damaged or wrong": 2, "lateral view": 1, "listed, but the image file is not there": 1
    }  # fmt: skip
    assert load_table(tmp_path / "out/labels.csv") == [
        {"study_id": "patient00001-study1", "Edema": "1", "Pleural Effusion": ""},
        {"study_id": "patient64541-study1", "Edema": "", "Pleural Effusion": ""},
    ]


def test_indiana(tmp_path: Path) -> None:
    root = tmp_path / "set"
    reports = {"MeSH": "normal", "indication": "Cough.", "comparison": "", "impression": "Normal."}
    save_table(root / "indiana_reports.csv", [
        {"uid": uid, **reports, "findings": "XXXX, clear."} for uid in ("1", "2", "3")
    ])  # fmt: skip
    save_table(root / "indiana_projections.csv", [
        {"uid": "1", "filename": "1_IM-0001-4001.dcm.png", "projection": "Frontal"},
        {"uid": "1", "filename": "1_IM-0001-3001.dcm.png", "projection": "Lateral"},
        {"uid": "2", "filename": "2_IM-0652-1001.dcm.png", "projection": "Frontal"},
    ])  # fmt: skip
    for name in ("1_IM-0001-4001", "1_IM-0001-3001", "2_IM-0652-1001"):
        save_picture(root / f"images/images_normalized/{name}.dcm.png")
    summary, rows = load(root)
    assert [row["image"].rpartition("/")[2] for row in rows] == [
        "1_IM-0001-4001.dcm.png", "2_IM-0652-1001.dcm.png"
    ]  # fmt: skip
    assert (summary.reports, summary.reports_without_study) == (2, 1)
    assert load_table(tmp_path / "out/reports.csv")[0] == {
        "study_id": "1", "findings": "XXXX, clear.", "impression": "Normal.",
        "indication": "Cough.", "comparison": "",
    }  # fmt: skip
    # The reports alone are a set too.
    summary = import_folder(root / "indiana_reports.csv", tmp_path / "texts")
    assert (summary.layout, summary.reports, summary.images) == ("reports", 3, 0)
    assert not (tmp_path / "texts/manifest.csv").exists()


def test_open_i_has_the_labels_that_people_coded(tmp_path: Path) -> None:
    root = public_sets.openi(tmp_path / "set")
    _, rows = load(root)
    labels = {row.pop("study_id"): row for row in load_table(tmp_path / "out/labels.csv")}
    said = {
        study: {name for name, cell in row.items() if cell == "1"} for study, row in labels.items()
    }
    assert said["1"] == {"Cardiomegaly", "Pleural Effusion"}
    assert said["2"] == {"Lung Opacity"}
    assert said["3"] == {"Fracture", "No Finding"}
    assert set(labels["30"].values()) == {""}
    assert set(labels["1"].values()) == {"1", "0"}
    for finding in ("Cardiomegaly", "Lung Opacity", "Fracture"):  # each in every part
        assert len({row["split"] for row in rows if finding in said[row["study_id"]]}) == 3
    # A table of labels beside comes first.
    save_table(root / "labels_mesh.csv", [{"study_id": "1", "Edema": "1"}])
    import_folder(root, tmp_path / "other")
    assert load_table(tmp_path / "other/labels.csv") == [{"study_id": "1", "Edema": "1"}]
