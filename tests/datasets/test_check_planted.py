"""A data folder with one fault of every kind: each is found, and a clean folder is clean."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cxrtext.datasets.checking import CheckReport, check_data
from tests.datasets.written import save_radiograph, save_table

SECRET = "Zebulon Quisenberry has a pleural effusion."
"""Report text and a name: nothing of it may be quoted."""

Rows = list[dict[str, object]]


def pixels(seed: int, height: int = 96, width: int = 96) -> np.ndarray:
    """Blurred noise: every seed another picture, its outline too."""
    coarse = np.random.default_rng(seed).integers(40, 215, (8, 8)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def save_dicom(path: Path, gray: np.ndarray, view: str = "PA", modality: str = "DX") -> None:
    """8-bit values that come out of the reader as they are."""
    said = {"PatientName": "Quisenberry^Zebulon", "Modality": modality, "ViewPosition": view}
    save_radiograph(path, "1.2.3", gray, **said, WindowCenter="128", WindowWidth="256")


def clean_tables(folder: Path) -> tuple[Rows, Rows, Rows]:
    """Twelve images of twelve patients, written; their rows."""
    (folder / "images").mkdir(parents=True)
    manifest: Rows = []
    reports: Rows = []
    labels: Rows = []
    for i in range(12):
        name = f"images/clean{i:02d}.png"
        Image.fromarray(pixels(i)).save(folder / name)
        row = {"image": name, "study_id": f"s{i}", "patient_id": f"p{i}"}
        split = ("train", "train", "val", "test")[i % 4]
        manifest.append({**row, "split": split, "view": ("PA", "AP")[i % 2], "age": 40 + i})
        text = f"No effusion is seen on this image. The heart measures {i} cm."
        reports.append({"study_id": f"s{i}", "findings": text, "impression": "Normal chest."})
        labels.append({"study_id": f"s{i}", "Edema": i % 2, "Pneumonia": (-1, 0, 1, "")[i % 4]})
    return manifest, reports, labels


BOX: dict[str, object] = {
    "image": "images/clean01.png", "bbox": [10, 10, 20, 20], "label_text": "Edema."
}  # fmt: skip


def save_boxes(path: Path, boxes: list[dict[str, object]]) -> None:
    names = list(dict.fromkeys(str(box["image"]) for box in boxes))
    size = {"width": 96, "height": 96}
    content = {
        "images": [{"id": i, "file_name": name, **size} for i, name in enumerate(names)],
        "annotations": [
            {"image_id": names.index(str(box["image"])), "category_id": 1, **box} for box in boxes
        ],
        "categories": [{"id": 1, "name": "Edema"}],
    }
    path.write_text(json.dumps(content))


def _images_with_faults(folder: Path) -> Rows:
    images = folder / "images"
    saved: dict[str, np.ndarray] = {
        "dark": np.clip(pixels(20) // 12, 0, 255), "bright": 235 + pixels(21) // 12,
        "constant": np.full((96, 96), 70), "blank": 120 + pixels(22) // 100,
        "long": pixels(23, 96, 300), "small": pixels(24, 40, 40), "lateral": pixels(25),
        "splits": pixels(2), "patients": pixels(26), "patients2": pixels(26),
        "studies": pixels(27), "within": pixels(28), "within2": pixels(28),
    }  # fmt: skip
    for name, gray in saved.items():
        Image.fromarray(gray.astype(np.uint8)).save(images / f"{name}.png")
    save_dicom(images / "studies.dcm", pixels(27))
    save_dicom(images / "ct.dcm", pixels(29), modality="CT")
    save_dicom(images / "header-lateral.dcm", pixels(30), view="LL")
    save_dicom(images / "view-differs.dcm", pixels(31), view="AP")
    big = Image.fromarray(pixels(0)).resize((150, 150), Image.Resampling.BICUBIC)
    big.save(images / "near.jpg", quality=90)
    whole = (images / "clean00.png").read_bytes()
    (images / "cut.png").write_bytes(whole[: len(whole) // 2])
    (images / "text.png").write_text(SECRET)
    (images / "folder.png").mkdir()
    rows: Rows = [
        {"image": f"images/{name}", "study_id": f"t-{name}", "split": "train", "view": "PA"}
        for name in (
            *(f"{name}.png" for name in saved),
            *("studies.dcm", "ct.dcm", "header-lateral.dcm", "view-differs.dcm"),
            *("near.jpg", "cut.png", "text.png", "folder.png", "gone.png"),
        )
    ]
    changes: dict[str, dict[str, object]] = {
        "lateral.png": {"view": "Lateral"}, "patients2.png": {"view": ""},
        "within.png": {"study_id": "t-within", "patient_id": "w"},
        "within2.png": {"study_id": "t-within", "patient_id": "w"},
        "studies.png": {"patient_id": "u"}, "studies.dcm": {"patient_id": "u"},
    }  # fmt: skip
    for row in rows:
        name = str(row["image"]).removeprefix("images/")
        row["patient_id"] = f"q-{name}"
        row["age"] = "50"
        row.update(changes.get(name, {}))
    return rows


def write_faulty(folder: Path) -> Path:
    manifest, reports, labels = clean_tables(folder)
    manifest += _images_with_faults(folder)
    (folder.parent / "outside.png").write_bytes((folder / "images/clean00.png").read_bytes())
    named: dict[str, object] = {"study_id": "x", "patient_id": "x", "split": "train", "view": "PA"}
    for i in range(5):
        Image.fromarray(pixels(50 + i)).save(folder / f"images/row{i}.png")
    manifest += [
        {**named, "image": "../outside.png"},
        {**named, "image": ""},
        {**named, "image": "images/row0.png", "study_id": ""},
        {**named, "image": "images/clean00.png"},
        {**named, "image": "images/row1.png", "split": "dev", "study_id": "x1"},
        {**named, "image": "images/row2.png", "split": "", "patient_id": "", "study_id": "x2"},
        {**named, "image": "images/row3.png", "patient_id": "p3", "study_id": "x3"},
        {**named, "image": "images/row4.png", "patient_id": "p9", "study_id": "s4", "split": ""},
    ]
    save_table(folder / "manifest.csv", manifest)
    with (folder / "manifest.csv").open("ab") as handle:
        handle.write(f"too,few\n{SECRET}\n".encode() + b"images/\xe9.png,s,p,train,PA,3\n")
    reports[3] |= {"findings": "", "impression": ""}
    reports[4] |= {"findings": "Normal.", "impression": ""}
    reports[5] |= {"findings": "word " * 1600}
    reports[6] |= {"findings": "12345", "impression": ""}
    reports[7] |= {"findings": SECRET, "impression": ""}
    reports[8] |= {"findings": SECRET.upper(), "impression": ""}
    reports += [{"study_id": "nobody", "findings": SECRET}, {"study_id": "s1", "findings": SECRET}]
    save_table(folder / "reports.csv", reports)
    labels[0] |= {"Edema": SECRET}
    labels += [{"study_id": "nobody", "Edema": 0}, {"study_id": "", "Edema": 0}]
    labels += [{**labels[1]}, {"study_id": "s2", "Edema": 1, "Pneumonia": 0}]
    for row in labels:
        row["Pneumothorax"] = ""
    save_table(folder / "labels.csv", labels)
    fine = {**BOX, "label_text": SECRET}
    boxes: list[dict[str, object]] = [
        fine, {**fine, "bbox": [80, 10, 40, 20]}, {**fine, "bbox": [-9, 10, 40, 20]},
        {**fine, "bbox": [10, 10, 0, 20]}, {**fine, "bbox": [10, 10, "wide", 20]},
        {**fine, "bbox": [10, 10]}, {**fine, "label_text": ""},
        {**fine, "image": "images/nowhere.png"}, {**fine, "image": "images/near.jpg"},
    ]  # fmt: skip
    save_boxes(folder / "boxes.json", boxes)
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    folder = write_faulty(tmp_path_factory.mktemp("planted") / "set")
    return check_data(folder, pictures=True)


PLANTED: dict[str, tuple[int, tuple[str, ...]]] = {
    "row-wrong": (12, (
        "manifest row 35: image '../outside.png' lies outside", "manifest row 36: it has an empty",
        "manifest row 37: it has an empty study_id", "manifest row 38: images/clean00.png is in",
        "manifest row 39: split 'dev' is not one of",
    )),
    "patient-in-two-splits": (1, ("rows 4 (test) and 41 (train)",)),
    "study-of-two-patients": (1, ("rows 5 and 42",)),
    "no-patients": (1, ("1 of 45 rows",)),
    "image-missing": (1, ("images/gone.png",)),
    "image-unreadable": (3, ("images/cut.png",)),
    "image-constant": (1, ("images/constant.png",)),
    "image-exposure": (3, ("images/blank.png", "images/dark.png", "images/bright.png")),
    "image-shape": (2, ("images/long.png", "images/small.png")),
    "view-lateral": (2, ("images/lateral.png",)),
    "not-admitted": (1, ("images/ct.dcm (row 27): another modality than CR, DX or DR",)),
    "same-image-in-two-splits": (1, ("images/clean02.png (row 3) = images/splits.png",)),
    "same-image-of-two-patients": (1, ("images/patients.png",)),
    "report-without-sentence": (2, ("row 4", "row 7")),
    "label-one-sided": (1, ("Pneumothorax: 0 positive, 0 negative",)),
    "box-wrong": (6, (
        "box 2 (images/clean01.png): it reaches outside", "annotation 4", "annotation 5",
    )),
    "box-image-resized": (1, ("box 9 (images/near.jpg)",)),
}  # fmt: skip


@pytest.mark.parametrize("code", PLANTED)
def test_each_planted_fault_is_found(report: CheckReport, code: str) -> None:
    count, examples = PLANTED[code]
    (problem,) = (one for one in report.problems if one.kind.code == code)
    assert problem.count == count, problem.examples
    for example in examples:
        assert any(example in shown for shown in problem.examples), problem.examples


def test_nothing_else_is_found(report: CheckReport) -> None:
    joined = {"study-without-report"}
    joined |= {"looks-otherwise"}  # the pictures are noise
    assert {problem.kind.code for problem in report.problems} == set(PLANTED) | joined


def test_no_report_text_and_no_name_is_told(report: CheckReport) -> None:
    said = json.dumps(report.to_dict())
    for word in ("Zebulon", "Quisenberry", "ZEBULON"):
        assert word not in said


def test_suspicious_images_are_shown(report: CheckReport) -> None:
    assert report.galleries is not None
    shown = {group.title: group.pictures for group in report.galleries}
    laterals = [picture.title for picture in shown["lateral views"]]
    assert laterals == ["images/lateral.png", "images/header-lateral.dcm"]
    assert len(shown["images with the same content"]) == 6
    assert all(p.pngs[0].startswith(b"\x89PNG") for group in shown.values() for p in group)


def test_clean_folder_is_clean(tmp_path: Path) -> None:
    for name, rows in zip(("manifest", "reports", "labels"), clean_tables(tmp_path), strict=True):
        save_table(tmp_path / f"{name}.csv", rows)
    save_boxes(tmp_path / "boxes.json", [BOX])
    report = check_data(tmp_path)
    # The pictures are noise, which looks like no chest.
    assert {problem.kind.code for problem in report.problems} == {"looks-otherwise"}
    assert not report.has_failed()
    assert report.galleries is None
    assert report.summary == {
        "images listed": 12, "images read": 12, "studies": 12, "patients": 12, "reports": 12,
        "boxes": 1,
    }  # fmt: skip


def test_every_one_of_several_equal_images_is_named(tmp_path: Path) -> None:
    manifest, *_ = clean_tables(tmp_path)
    ids = ({"study_id": f"copy{n}", "patient_id": f"copy{n}"} for n in range(4))
    copies = [{**manifest[0], **one, "image": f"images/{one['study_id']}.png"} for one in ids]
    for row in copies:
        shutil.copy(tmp_path / "images/clean00.png", tmp_path / str(row["image"]))
    save_table(tmp_path / "manifest.csv", [*manifest, *copies])
    problems = {one.kind.code: one for one in check_data(tmp_path).problems}
    found = problems["same-image-of-two-patients"]
    assert found.count == 4
    assert [f"copy{n}.png" in one for n, one in enumerate(found.examples)] == [True] * 4


@pytest.mark.data
@pytest.mark.skipif("CXRTEXT_TEST_DATA" not in os.environ, reason="CXRTEXT_TEST_DATA is not set")
def test_real_images_have_no_error(tmp_path: Path) -> None:
    folder = shutil.copytree(Path(os.environ["CXRTEXT_TEST_DATA"]) / "cxr", tmp_path / "cxr")
    (folder / "lung_boxes.csv").rename(folder / "boxes.csv")
    report = check_data(folder)
    assert not report.has_failed()
    assert report.summary["images read"] == 162
    assert report.summary["boxes"] == 324
