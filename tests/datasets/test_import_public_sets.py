"""Public sets with boxes, masks or votes, in miniature, and what is odd about their files."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.datasets.admission.decide import OTHER_PART, SECONDARY, TWO_VIEWS
from cxrtext.datasets.admission.public import BY_SET, with_set
from cxrtext.datasets.checking import check_data
from cxrtext.datasets.importing import ImportOptions, ImportSummary, import_folder
from cxrtext.datasets.importing.formats.challenges import runs_of_pairs, voted
from cxrtext.errors import DataError
from cxrtext.evaluation.data import read_data_folder
from cxrtext.images import read_image
from cxrtext.images.dicom.described import Described
from cxrtext.records import Absent, Box, iter_boxes
from cxrtext.records.masks import mask_of_runs
from tests.datasets import public_sets as sets
from tests.datasets.imported import drawn_boxes, import_beside
from tests.datasets.public_sets import mimic, nih
from tests.datasets.written import load_table

Builder = Callable[..., Path]
LAYOUTS: dict[str, Builder] = {
    "rsna": sets.rsna, "siim": sets.siim, "vindr": sets.vindr,
    "chestxdet10": partial(sets.chestxdet10, count=4, tested=3), "padchest": sets.padchest,
    "padchest-gr": sets.padchest_gr, "chexpert": sets.chexpert_5x200, "mimic": mimic, "nih": nih,
}  # fmt: skip


def load(folder: Path, **options: Any) -> tuple[ImportSummary, dict[str, dict[str, str]]]:
    """Import into a folder beside; what was counted, and the rows by the names of their files."""
    summary, rows, _ = import_beside(folder, **options)
    return summary, {Path(row["image"]).stem: row for row in rows}


def labels_in(folder: Path) -> dict[str, dict[str, str]]:
    return {row["study_id"]: row for row in load_table(folder / "out/labels.csv")}


def drawn_or_not(folder: Path) -> list[Box | Absent]:
    found = iter_boxes(folder / "out/boxes.json")
    return [one for one in found if isinstance(one, Box | Absent)]


def reasons(folder: Path) -> list[str]:
    return [row["reason"] for row in load_table(folder / "out/import.rejected.csv")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_set_passes_the_check_and_can_be_hashed(layout: str, tmp_path: Path) -> None:
    root = LAYOUTS[layout](tmp_path / "set")
    summary, rows = load(root)
    assert read_data_folder(tmp_path / "out").records
    found = {one.kind.code: str(one.kind.severity) for one in check_data(tmp_path / "out").problems}
    assert "not-admitted" not in found
    assert "error" not in found.values(), found
    (tmp_path / "key").write_bytes(b"0123456789abcdefghij")
    options = ImportOptions(hash_key=tmp_path / "key")
    hashed = import_folder(root, tmp_path / "hashed", options)
    assert (hashed.images, hashed.reports, hashed.labelled, hashed.boxes, hashed.absent) == (
        summary.images, summary.reports, summary.labelled, summary.boxes, summary.absent
    )  # fmt: skip
    written = load_table(tmp_path / "hashed/manifest.csv")
    assert all(len(row["study_id"]) == 24 for row in written)
    said = str(written) + "".join(str(path) for path in (tmp_path / "hashed").rglob("*"))
    names = {*rows, *(row[key] for row in rows.values() for key in ("study_id", "patient_id"))}
    assert not any(name in said for name in names if len(name) > 1)


def test_rsna(tmp_path: Path) -> None:
    root = sets.rsna(tmp_path / "set")
    summary, rows = load(root, keep=("age", "sex"))
    first, second = (sets.patient_name("rsna", number) for number in (0, 1))
    assert (rows[first]["view"], rows[first]["age"], rows[first]["sex"]) == ("PA", "20", "F")
    assert rows[first]["patient_id"] == rows[first]["study_id"] == first
    labels = labels_in(tmp_path)
    assert labels[first] == {
        "study_id": first, "No Finding": "0", "Lung Opacity": "1", "Pneumonia": "1"
    }  # fmt: skip
    assert labels[second]["No Finding"] == "1"
    assert labels[sets.patient_name("rsna", 2)]["No Finding"] == "0"
    assert (summary.boxes, summary.absent, summary.notes) == (6, 8, {BY_SET: 12})
    boxes = drawn_or_not(tmp_path)
    name = rows[first]["image"]
    drawn = (32.0, 10.0, 32.0, 64.0)
    assert boxes[0] == Box(name, 128, 128, "Pneumonia", "Pneumonia", drawn)
    assert boxes[2] == Absent(rows[second]["image"], 128, 128, "Pneumonia", "Pneumonia")


def test_rsna_with_the_list_that_says_whose_images_these_are(tmp_path: Path) -> None:
    root = sets.rsna(tmp_path / "set")
    sets.rsna_mapping(root)
    summary, rows = load(root, split=(50, 0, 50))
    assert summary.patients == 6
    pair = [rows[sets.patient_name("rsna", number)] for number in (4, 5)]
    assert pair[0]["patient_id"] == pair[1]["patient_id"] == "00000003"
    assert pair[0]["split"] == pair[1]["split"]


def test_rsna_rows_that_contradict_themselves(tmp_path: Path) -> None:
    root = sets.rsna(tmp_path / "set")
    table = root / "stage_2_detailed_class_info.csv"
    table.write_text(table.read_text().replace("Normal\n", "Lung Opacity\n", 1))
    labels = root / "stage_2_train_labels.csv"
    lines = labels.read_text().splitlines()
    lines[1] = lines[1].replace("10.0", "?")
    labels.write_text("\n".join(lines) + "\n")
    summary, _ = load(root)
    assert (summary.images, summary.damaged, summary.boxes) == (11, 2, 5)
    assert any("contradicts its Target" in reason for reason in reasons(tmp_path))


def test_one_rule_decides_about_a_set_and_about_a_hospital(tmp_path: Path) -> None:
    """What a set says is added to its files' headers, and replaces nothing else."""
    root = sets.rsna(tmp_path / "set", count=4)
    names = [sets.patient_name("rsna", number) for number in range(4)]
    for number, elements in enumerate(
        ({"ViewPosition": "LL"}, {"BodyPartExamined": "HAND"}, {"Modality": "MG"})
    ):
        path = root / f"stage_2_train_images/{names[number]}.dcm"
        sets.save_capture(path, number, names[number], 64, **elements)
    summary, rows = load(root)
    assert list(rows) == [names[3]]
    assert summary.set_aside == {
        TWO_VIEWS: 1, OTHER_PART: 1, "another modality than CR, DX or DR": 1
    }  # fmt: skip
    # The same files as a hospital's are captures of a screen.
    with pytest.raises(DataError, match="no frontal radiograph was found"):
        import_folder(root, tmp_path / "tree", ImportOptions(layout="dicom"))
    assert SECONDARY in (tmp_path / "tree/import.rejected.csv").read_text()
    (tmp_path / "out/import.json").unlink()  # then nothing says that it is of a set
    kinds = {one.kind.code for one in check_data(tmp_path / "out").problems}
    assert "not-admitted" in kinds


def test_what_a_set_says_leaves_a_header_that_speaks_alone() -> None:
    bare = Described({"Rows": ["8"]})
    assert with_set(bare, "vindr").first("ViewPosition") == "PA"
    assert with_set(Described({"ViewPosition": ["AP"]}), "vindr").first("ViewPosition") == "AP"
    report = Described({"SOPClassUID": ["1.2.840.10008.5.1.4.1.1.88.11"]})
    assert with_set(report, "rsna") == report
    assert with_set(bare, "") is bare


def test_vindr(tmp_path: Path) -> None:
    root = sets.vindr(tmp_path / "set")
    summary, rows = load(root, keep=("age", "sex"))
    assert summary.splits["test"] == 8
    assert summary.without_patient == 20
    heart, fluid, nothing = (sets.vindr_name("train", number) for number in range(3))
    labels = labels_in(tmp_path)
    assert labels[heart]["Cardiomegaly"] == labels[fluid]["Pleural Effusion"] == "1"
    # One reader of three: uncertain, and not drawn.
    assert labels[fluid]["Nodule/Mass"] == "-1"
    assert labels[nothing]["No Finding"] == "1"
    assert {"Other disease", "COPD"} < set(labels[heart])
    assert "Other diseases" not in labels[heart]
    boxes = drawn_boxes(tmp_path / "out/boxes.json")
    drawn = [box for box in boxes if box.image == rows[fluid]["image"]]
    assert [(box.finding, box.width) for box in drawn] == [("Pleural Effusion", 144)] * 3
    assert drawn[0].bbox == pytest.approx((0.2 * 128 + 4, 68, 0.4 * 128, 0.3 * 128))
    # Sex and age where there are some; kinds of header come in turn.
    said = [rows[sets.vindr_name("train", number)] for number in range(5)]
    assert [(row["age"], row["sex"]) for row in said] == [
        ("61", "F"), ("61", "M"), ("", ""), ("", "O"), ("61", "F")
    ]  # fmt: skip
    inverted, plain = (
        read_image(root / f"train/{sets.vindr_name('train', number)}.dicom") for number in (1, 0)
    )
    assert abs(float(inverted.mean()) - float(plain.mean())) < 0.02  # MONOCHROME1 is turned round


@pytest.mark.parametrize(
    ("votes", "label"),
    [("111", "1"), ("110", "1"), ("100", "-1"), ("000", "0"), ("10", "-1"), ("1", "1")],
)
def test_votes(votes: str, label: str) -> None:
    assert voted(list(votes)) == voted([*votes, ""]) == label
    assert voted(["", ""]) == ""


def test_vindr_files_that_cannot_be_read(tmp_path: Path) -> None:
    root = sets.vindr(tmp_path / "set", count=5, tested=1)
    paths = [root / f"train/{sets.vindr_name('train', number)}.dicom" for number in range(5)]
    data = paths[0].read_bytes()
    paths[0].write_bytes(data[data.index(b"\x10\x00\x40\x00") :])  # no preamble and no file header
    paths[1].write_bytes(paths[1].read_bytes()[:400])  # cut off before its pixels
    paths[2].write_bytes(b"")
    paths[3].unlink()
    summary, rows = load(root)
    assert set(rows) == {paths[4].stem, sets.vindr_name("test", 0)}
    assert (summary.damaged, summary.set_aside["listed, but the image file is not there"]) == (3, 1)
    told = reasons(tmp_path)
    assert sum("is not a DICOM file" in reason for reason in told) == 2
    assert sum("holds no pixel data" in reason for reason in told) == 1


def test_vindr_of_children_is_another_set(tmp_path: Path) -> None:
    root = sets.vindr(tmp_path / "set", count=2, tested=1)
    for path in (root / "annotations").glob("image_labels_*.csv"):
        path.write_text(path.read_text().replace("Aortic enlargement", "Bronchitis"))
    with pytest.raises(DataError, match="no set with the layout vindr"):
        import_folder(root, tmp_path / "out", ImportOptions(layout="vindr"))


def test_siim(tmp_path: Path) -> None:
    root = sets.siim(tmp_path / "set")
    summary, rows = load(root)
    assert (summary.images, summary.boxes, summary.absent) == (12, 8, 6)
    labels = labels_in(tmp_path)
    assert [labels[sets.image_uid(number)]["Pneumothorax"] for number in range(4)] == list("1010")
    boxes = drawn_boxes(tmp_path / "out/boxes.json")
    for number, several in ((0, 2), (2, 1)):
        image = rows[sets.image_uid(number)]["image"]
        masks = [box for box in boxes if box.image == image]
        assert len(masks) == several
        assert masks[0].segmentation is not None
        mask = mask_of_runs(masks[0].segmentation, 128, 128)
        np.testing.assert_array_equal(mask, sets.siim_mask(number, 128))
    assert boxes[0].bbox == (96.0, 16.0, 16.0, 48.0)


def test_runs_of_siim_are_read_as_its_users_read_them() -> None:
    """The row that the challenge's page shows, by the decoder that was given out with it."""
    text = "387620 23 996 33 986 43 977 51 968 58 962 65 956 70 952 74 949 76 946 79"
    flat = np.zeros(1024 * 1024, dtype=bool)
    place, numbers = 0, [int(part) for part in text.split()]
    for skip, run in zip(numbers[::2], numbers[1::2], strict=True):
        place += skip
        flat[place : place + run] = True
        place += run
    mask = mask_of_runs(runs_of_pairs(text, 1024, 1024), 1024, 1024)
    np.testing.assert_array_equal(mask, flat.reshape(1024, 1024).T)


@pytest.mark.parametrize("text", ["", "5", "1 2 3", "a b", "3 -1", "0 20000", "4 0"])
def test_a_mask_that_is_none_is_rejected_by_its_row(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no mask|invalid literal"):
        runs_of_pairs(text, 128, 128)
    root = sets.siim(tmp_path / "set", count=4)
    with (root / "train-rle.csv").open("a") as table:
        table.write(f"{sets.image_uid(1)}, {text}\n")
    summary, _ = load(root)
    assert (summary.images, summary.damaged) == (4, 1)
    assert reasons(tmp_path) == ["EncodedPixels are not a mask of 128 x 128 pixels; fix the cell"]


def test_chestxdet10(tmp_path: Path) -> None:
    root = sets.chestxdet10(tmp_path / "set", count=3, tested=3)
    summary, rows = load(root)
    assert (rows["36199"]["split"], rows["36199"]["patient_id"]) == ("test", "36199")
    assert summary.without_patient == 6
    labels = labels_in(tmp_path)
    assert labels["36200"]["No Finding"] == labels["36202"]["Pleural Effusion"] == "1"
    boxes = drawn_boxes(tmp_path / "out/boxes.json")
    assert [box.bbox for box in boxes if box.image == rows["36202"]["image"]] == [
        (150, 638, 79, 117), (799, 666, 138, 95)
    ]  # fmt: skip
    none = [one for one in drawn_or_not(tmp_path) if isinstance(one, Absent)]
    assert sum(one.image == rows["36200"]["image"] for one in none) == 10
    assert sum(one.image == rows["36202"]["image"] for one in none) == 9


def test_chestxdet10_under_names_that_say_the_patient(tmp_path: Path) -> None:
    """Training images of test patients are left out: no patient is in two splits."""
    root = sets.chestxdet10(tmp_path / "set", count=8, tested=4, size=64, nih_names=True)
    summary, rows = load(root)
    assert summary.set_aside == {"its patient is among the test images": 4}
    assert {row["patient_id"] for row in rows.values() if row["split"] == "test"} == {
        "00000001", "00000002"
    }  # fmt: skip
    assert len(rows) == 8


def test_chestxdet10_lists_that_are_wrong(tmp_path: Path) -> None:
    root = sets.chestxdet10(tmp_path / "set", count=6, tested=3, size=64)
    entries = json.loads((root / "train.json").read_text())
    entries[0]["syms"] = ["Effusion"]
    entries[1]["boxes"][0] = [30, 5, 20, 40]
    entries[2]["syms"][0] = "Broken Heart"
    entries[3]["file_name"] = "../x.png"
    (root / "train.json").write_text(json.dumps(entries))
    summary, _ = load(root)
    assert (summary.images, summary.damaged) == (5, 4)


def test_padchest(tmp_path: Path) -> None:
    root = sets.padchest(tmp_path / "set")
    summary, rows = load(root, keep=("age", "sex", "labels_by"))
    assert summary.views == {"AP": 8, "PA": 4}  # lying ones are AP
    assert summary.set_aside == {
        "lateral view": 1, "view of the ribs": 1, "excluded by its set": 1
    }  # fmt: skip
    third = rows[Path(sets.padchest_name(2)).stem]
    assert (third["age"], third["sex"], third["labels_by"]) == ("82", "M", "Physician")
    labels = labels_in(tmp_path)
    columns = ["study_id", "No Finding", "air bronchogram", "Cardiomegaly", "Pleural Effusion"]
    assert list(labels[third["study_id"]]) == [*columns, "Pneumonia"]
    assert list(labels[third["study_id"]].values())[1:] == ["0", "1", "0", "0", "1"]
    reports = load_table(tmp_path / "out/reports.csv")
    assert reports[0]["report"] == "sin hallazgo patologic ."
    assert (summary.reports, summary.studies_without_report, summary.boxes) == (12, 0, None)
    read = read_image(root / "1" / sets.padchest_name(1))  # 16 bits
    assert 0.2 < float(read.mean()) < 0.8


def test_padchest_cells_that_are_wrong(tmp_path: Path) -> None:
    root = sets.padchest(tmp_path / "set")
    table = root / sets.PADCHEST_TABLE
    text = table.read_text()
    table.write_text(
        text.replace("\"['cardiomegaly', 'pleural effusion']\"", "__import__('os')", 1)
        .replace("['normal'],", ",", 1)
        .replace(",AP_horizontal,", ",SIDEWAYS,", 1)
    )
    summary, rows = load(root)
    assert "its set's" not in reasons(tmp_path)
    assert sorted(reasons(tmp_path))[:2] == [
        "Labels is not a list of names; fix the cell",
        "Projection is not one of the set's; fix the cell",
    ]
    assert (summary.images, summary.damaged) == (11, 2)
    assert summary.labelled == 9  # one blank, one wrong, one of an image that was left out
    assert len(rows) == 11


def test_padchest_gr(tmp_path: Path) -> None:
    root = sets.padchest_gr(tmp_path / "set")
    summary, rows = load(root, keep=("age", "sex"))
    assert summary.splits == {"train": 6, "val": 3, "test": 3}
    assert (summary.patients, summary.boxes, summary.absent) == (4, 12, 12)
    by_study = {row["study_id"]: row for row in rows.values()}
    first, second, third = (str(159580160328898734 + number) for number in range(3))
    boxes = drawn_or_not(tmp_path)
    own = [box for box in boxes if box.image == by_study[second]["image"]]
    assert isinstance(own[0], Box)
    assert own[0].bbox == pytest.approx((0.55 * 160, 76.8, 0.35 * 160, 32.0))
    assert (own[0].finding, own[0].label_text) == ("Pleural Effusion", "Left pleural effusion.")
    assert own[1] == Absent(by_study[second]["image"], 160, 128, "No Finding", "No pneumothorax.")
    # A finding that was not drawn is neither a box nor absent.
    assert [b.label_text for b in boxes if b.image == by_study[third]["image"]] == [
        "Bilateral apical pleural thickening."
    ] * 2
    labels = labels_in(tmp_path)
    assert (labels[first]["No Finding"], labels[third]["copd signs"]) == ("1", "1")
    reports = {row["study_id"]: row for row in load_table(tmp_path / "out/reports.csv")}
    assert reports[second]["findings"] == "Left pleural effusion. No pneumothorax."


def test_padchest_gr_without_its_table_and_with_a_wrong_box(tmp_path: Path) -> None:
    root = sets.padchest_gr(tmp_path / "set", count=3)
    path = root / "grounded_reports_20240819.json"
    studies = json.loads(path.read_text())
    studies[1]["findings"][0]["boxes"].append([0.9, 0.2, 0.1, 0.3])
    path.write_text(json.dumps(studies))
    summary, _ = load(root)
    assert (summary.boxes, summary.damaged) == (3, 1)
    (root / "master_table.csv").unlink()
    with pytest.raises(DataError, match=r"master_table.csv is missing, which has the patients"):
        import_folder(root, tmp_path / "other")


def test_chexpert_5x200_is_the_test_split_and_nothing_else_is(tmp_path: Path) -> None:
    root = sets.chexpert_5x200(tmp_path / "set", each=2)
    test = root / "test.csv"
    test.write_text("Path,Edema\ntest/patient64741/study1/view1_frontal.jpg,1.0\n")
    sets.save_picture(root / "test/patient64741/study1/view1_frontal.jpg", 1, 64)
    summary, _ = load(root)
    assert summary.splits == {"train": 3, "val": 0, "test": 10}
    assert summary.set_aside == {
        "another image of a patient of chexpert_5x200": 10,
        "of test.csv; chexpert_5x200 is the test set": 1,
    }
    labels = labels_in(tmp_path)
    for number, finding in enumerate(sets.FIVE):
        found = labels[f"patient{number + 1:05d}-study1"]
        assert [name for name in sets.CHEXPERT_FINDINGS if found[name] == "1"] == [finding]
    assert summary.reports == 10
    # The list alone, above the folder that its paths name.
    alone = tmp_path / "alone"
    shutil.copytree(root / "train", alone / "CheXpert-v1.0/train")
    shutil.copy(root / "chexpert_5x200.csv", alone)
    summary = import_folder(alone, tmp_path / "of-list")
    assert (summary.layout, summary.splits["test"], summary.images) == ("chexpert", 10, 10)
