import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from cxrtext.datasets.admission.decide import BURNED_IN, MOVED, NO_VIEW
from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.images import read_image
from cxrtext.records import read_manifest
from tests.datasets.imported import Imported, import_beside
from tests.datasets.written import load_table, save_radiograph

CANARY = "CANARY^Zebulon"
"""The patient's name in every header; it may be in no table and no message."""
DATA = os.environ.get("CXRTEXT_TEST_DATA")


def save_dicom(path: Path, number: int = 1, *, preamble: bool = True, **elements: Any) -> None:
    """A radiograph of 8 by 8 pixels; None as a value leaves an element out."""
    values = {
        "StudyInstanceUID": f"1.2.9.{number}", "AccessionNumber": f"ACC{number}",
        "PatientID": f"MRN{number}", "PatientName": CANARY, "PatientAge": "061Y",
        "PatientSex": "F", "PatientBirthDate": "19600102", "StudyDate": "20210304",
    }  # fmt: skip
    pixels = np.full((8, 8), number, "<u2")
    save_radiograph(path, f"1.2.3.{number}", pixels, **{**values, **elements})
    if not preamble:
        path.write_bytes(path.read_bytes()[132:])


def load(folder: Path, **options: Any) -> Imported:
    """`import_beside`; no table has the name."""
    found = import_beside(folder, **options)
    for path in (folder.parent / "out").glob("*.*"):
        assert b"Zebulon" not in path.read_bytes()
    return found


LEFT: dict[str, tuple[dict[str, Any], str]] = {
    "lateral": ({"ViewPosition": "LL"}, "lateral view: by ViewPosition"),
    "other": ({"ViewPosition": "LLD"}, "other view (oblique, decubitus, axial): by ViewPosition"),
    "knee": ({"BodyPartExamined": "KNEE"}, "another body part: BodyPartExamined says knee"),
    "ct": ({"Modality": "CT"}, "another modality than CR, DX or DR"),
    "raw": ({"PresentationIntentType": "FOR PROCESSING"}, "raw detector data (for processing)"),
    "frames": ({"NumberOfFrames": "2"}, "several frames in one file"),
    "bare": ({"PixelData": None}, "holds no pixel data; export the image with its pixels"),
    "again": ({"SOPInstanceUID": "1.2.3.1"}, "the same SOPInstanceUID as another file: a/1/IM1"),
    "no-id": (
        {"StudyInstanceUID": None, "AccessionNumber": None}, "no study id; give every image one"
    ),
}  # fmt: skip
"""What does not enter: its elements, and why."""


def test_frontal_views_are_chosen_and_the_rest_is_listed_with_the_reason(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    code = Dataset()
    code.CodeValue, code.CodeMeaning = "272479007", "postero-anterior"
    save_dicom(tree / "a/1/IM1", 1)
    save_dicom(tree / "a/2/no.ending", 2, preamble=False, ViewPosition="AP_PORTABLE")
    save_dicom(tree / "b/6.dcm", 6, ViewPosition="", ViewCodeSequence=Sequence([code]))
    save_dicom(tree / "b/7.dcm", 7, ViewPosition=None)
    for number, (name, (elements, _)) in enumerate(LEFT.items()):
        same = 1 if name == "again" else 10 + number
        save_dicom(tree / f"c/{name}", same, **elements)
    (tree / "DICOMDIR").write_bytes(b"anything")
    (tree / "notes.txt").write_text("Zebulon was here")
    (tree / "b/cut.dcm").write_bytes((tree / "a/1/IM1").read_bytes()[:200])
    summary, rows, why = load(tree)
    assert [(row["image"], row["view"]) for row in rows] == [
        ("images/a/1/IM1", "PA"), ("images/a/2/no.ending", "AP"), ("images/b/6.dcm", "PA"),
        ("images/b/7.dcm", ""),
    ]  # fmt: skip
    assert "b/cut.dcm" in why
    del why["b/cut.dcm"]
    reasons = {f"c/{name}": reason for name, (_, reason) in LEFT.items()}
    assert why == {**reasons, "DICOMDIR": "DICOMDIR", "notes.txt": "no DICOM file"}
    assert (summary.images, summary.studies, summary.patients) == (4, 4, 4)
    assert summary.views == {"AP": 1, "PA": 2, "not said": 1}
    for record in read_manifest(tmp_path / "out/manifest.csv"):
        assert read_image(record.path).shape == (1, 8, 8)
    assert list(rows[0]) == ["image", "study_id", "patient_id", "split", "view", "instance"]
    assert rows[0]["study_id"] == "1.2.9.1"


def test_what_there_is_to_know_of_kept_images_is_counted(tmp_path: Path) -> None:
    save_dicom(tmp_path / "tree/1", 1, PatientOrientation=["R", "F"], BodyPartExamined="CHEST")
    save_dicom(tmp_path / "tree/2", 2, PatientOrientation=["F", "R"], BurnedInAnnotation="YES")
    save_dicom(tmp_path / "tree/3", 3, PatientOrientation=["R", "F"], ViewPosition=None)
    summary = load(tmp_path / "tree")[0]
    assert summary.images == 3
    counts = {MOVED["mirrored"]: 2, MOVED["turned"]: 1, BURNED_IN: 1}
    assert {note: summary.notes[note] for note in counts} == counts
    assert NO_VIEW not in summary.notes


def test_when_an_image_was_taken_comes_with_what_was_done_to_its_dates(tmp_path: Path) -> None:
    study: dict[str, Any] = {"StudyDate": "20210301", "StudyTime": "1015"}
    taken: dict[str, Any] = {"AcquisitionDate": "20210302", "AcquisitionTime": "080910.25"}
    save_dicom(tmp_path / "tree/1", 1, **study)
    save_dicom(tmp_path / "tree/2", 2, **study, **taken)
    save_dicom(tmp_path / "tree/3", 3, AcquisitionDateTime="20210303101112.5+0100")
    modified: dict[str, Any] = {"LongitudinalTemporalInformationModified": "MODIFIED"}
    save_dicom(tmp_path / "tree/4", 4, StudyDate="20210304", StudyTime=None, **modified)
    save_dicom(tmp_path / "tree/5", 5, StudyDate=None)
    rows = load(tmp_path / "tree", keep=("acquired",))[1]
    assert [(row["acquired"], row["dates"]) for row in rows] == [
        ("2021-03-01T10:15:00", ""), ("2021-03-02T08:09:10", ""), ("2021-03-03T10:11:12", ""),
        ("2021-03-04", "modified"), ("", ""),
    ]  # fmt: skip


def test_only_named_metadata_is_read(tmp_path: Path) -> None:
    save_dicom(tmp_path / "tree/1", 1, ImagerPixelSpacing=["0.2", "0.2"])
    rows = load(tmp_path / "tree", keep=("age", "sex", "date", "spacing"))[1]
    assert rows[0] | {"split": ""} == {
        "image": "images/1", "study_id": "1.2.9.1", "patient_id": "MRN1", "split": "",
        "view": "PA", "age": "61", "sex": "F", "date": "2021", "spacing": "0.2",
        "instance": "1.2.3.1",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="--keep PatientName: the dicom layout has no such"):
        import_folder(tmp_path / "tree", tmp_path / "x", ImportOptions(keep=("PatientName",)))


def test_reports_are_joined_by_study_or_accession_number(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in (1, 2, 3):
        save_dicom(tree / str(number), number)
    # One number for the studies of two patients: its report belongs to neither.
    save_dicom(tree / "4", 4, AccessionNumber="SHARED")
    save_dicom(tree / "5", 5, AccessionNumber="SHARED")
    reports = tmp_path / "reports.csv"
    reports.write_text(
        "study_id,report\n1.2.9.1,By study.\nacc2,By accession.\nSHARED,Whose?\nother,No.\n"
        "ACC1,Second of the first.\n"
    )
    summary, _, why = load(tree, reports=reports)
    assert load_table(tmp_path / "out/reports.csv") == [
        {"study_id": "1.2.9.1", "report": "By study."},
        {"study_id": "1.2.9.2", "report": "By accession."},
    ]
    assert (summary.reports, summary.reports_without_study) == (2, 2)
    assert summary.studies_without_report == 3
    assert list(why) == ["reports.csv row 5"]
    assert why["reports.csv row 5"].startswith(
        "a second report of one study, and nothing says which"
    )


def test_hashed_ids_leave_no_id_and_no_name(tmp_path: Path) -> None:
    tree, key = tmp_path / "tree", tmp_path / "key"
    save_dicom(tree / "MRN1_Zebulon/IM1.dcm", 1, PatientAge="093Y")
    save_dicom(tree / "MRN1_Zebulon/IM2.dcm", 2, PatientID="MRN1")
    save_dicom(tree / "MRN1_Zebulon/IM3.dcm", 3, ViewPosition="LL")
    (tmp_path / "reports.csv").write_text("study_id,report\nACC2,Clear.\n")
    key.write_bytes(b"0123456789abcdefghij\n")
    options: dict[str, Any] = {"hash_key": key, "keep": ("age", "accession")}
    summary, rows, why = load(tree, reports=tmp_path / "reports.csv", **options)
    assert summary.hashed
    assert rows[0]["patient_id"] == rows[1]["patient_id"] != rows[0]["study_id"]
    assert rows[0]["age"] == "90"
    reports = load_table(tmp_path / "out/reports.csv")
    assert [row["study_id"] for row in reports] == [rows[1]["study_id"]]
    said = [*(p.name for p in (tmp_path / "out").rglob("*")), str(rows), str(why), str(reports)]
    assert not any(word in text for word in ("MRN", "Zebulon", "1.2.9", "ACC") for text in said)
    assert all(len(row["study_id"]) == 24 for row in rows)
    # Another key gives other hashes, and does not go into the same folder.
    key.write_bytes(b"another key, as long as it takes")
    with pytest.raises(DataError, match="was imported with another key"):
        import_folder(tree, tmp_path / "out", ImportOptions(**options))


@pytest.mark.parametrize(
    ("content", "says"), [(b"short", "16 to"), (b"a" * 40, "drawn at random"), (None, "be read")]
)
def test_a_poor_key_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    save_dicom(tmp_path / "tree/1", 1)
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        import_folder(tmp_path / "tree", tmp_path / "o", ImportOptions(hash_key=tmp_path / "key"))
    for name in ("date", "acquired"):
        options = ImportOptions(hash_key=tmp_path, keep=(name,))
        with pytest.raises(ConfigError, match=f"--keep {name}: dates are dropped"):
            import_folder(tmp_path / "tree", tmp_path / "o", options)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    save_dicom(tree / "1", 1)
    save_dicom(outside / "2", 2)
    (tree / "link").symlink_to(outside / "2")
    (tree / "folder").symlink_to(outside)
    (tree / "loop").symlink_to(tree / "loop")
    _, rows, why = load(tree)
    assert [row["image"] for row in rows] == ["images/1"]
    assert set(why) == {"link", "folder", "loop"}


def test_hostile_files_are_rejected(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    save_dicom(tree / "1", 1)
    good = (tree / "1").read_bytes()
    generator = np.random.default_rng(0)
    for number in range(60):
        data = np.frombuffer(good[: int(generator.integers(140, len(good)))], np.uint8).copy()
        places = generator.integers(132, len(data), 5)
        data[places] = generator.integers(0, 256, len(places))
        (tree / f"x{number}").write_bytes(data.tobytes())
    (tree / os.fsdecode(b"caf\xe9")).write_bytes(good)
    (tree / "line\nbreak").write_bytes(good)
    (tree / "end ").write_bytes(good.replace(b"1.2.3.1", b"1.2.3.9"))
    summary, rows, why = load(tree, max_rejected=1000)
    assert rows[0]["image"] == "images/1"
    assert "rename the file" in why["line\\nbreak"]
    assert "rename the file" in why["end "]
    assert summary.damaged >= 5
    assert all("\n" not in text for text in why.values())


def test_too_many_damaged_files_stop_the_import_and_are_listed(tmp_path: Path) -> None:
    save_dicom(tmp_path / "tree/1", 1)
    for number in range(5):
        save_dicom(tmp_path / f"tree/2{number}", 2, StudyInstanceUID="", AccessionNumber="")
    with pytest.raises(DataError, match="3 bad items, more than --max-rejected 2; the last: 2"):
        load(tmp_path / "tree", max_rejected=2)
    assert len(load_table(tmp_path / "out/import.rejected.csv")) == 3
    assert not (tmp_path / "out/manifest.csv").exists()


def test_a_tree_without_radiographs_says_what_it_holds(tmp_path: Path) -> None:
    save_dicom(tmp_path / "tree/1", 1, Modality="CT")
    with pytest.raises(DataError, match="no frontal radiograph was found .another modality.*: 1"):
        load(tmp_path / "tree")


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="CXRTEXT_TEST_DATA is not set")
def test_the_real_files(tmp_path: Path) -> None:
    shutil.copytree(Path(DATA or ".") / "dicom", tmp_path / "tree")
    summary, rows, why = load(tmp_path / "tree")
    assert [row["image"] for row in rows] == ["images/cr_chest_mono1_15bit_j2k.dcm"]
    assert "holds no pixel data" in why["cr_chest_header_only_japanese.dcm"]
    assert "without its file header" in why["bad_no_file_meta.dcm"]
    assert "is not supported; export it uncompressed" in why["ot_deflated.dcm"]
    assert why["ct_signed_rescale.dcm"] == "another modality than CR, DX or DR"
    assert summary.damaged == 3


@pytest.mark.parametrize("stage", ["looking at images", "putting images in place"])
@pytest.mark.parametrize("changed", [False, True])
def test_a_file_that_changes_or_goes_during_an_import_is_left_out(
    tmp_path: Path, stage: str, changed: bool
) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    for number in (1, 2, 3):
        save_dicom(tree / f"{number}.dcm", number, PixelData=bytes([number, 0] * 64))
    import_folder(tree, out)
    assert (out / "images/2.dcm").is_file()
    came = iter([True])

    def tell(now: str, _done: int, _total: int) -> None:
        if now == stage and next(came, False):
            (tree / "2.dcm").unlink()
            if changed:
                save_dicom(tree / "2.dcm", 2, ViewPosition="LL", PatientID="MRN9")

    summary = import_folder(tree, out, progress=tell)
    assert [row["image"] for row in load_table(out / "manifest.csv")] == [
        "images/1.dcm", "images/3.dcm",
    ]  # fmt: skip
    assert (summary.images, summary.damaged) == (2, 1)
    (why,) = load_table(out / "import.rejected.csv")
    assert (why["item"], why["of"]) == ("2.dcm", "image")
    assert why["reason"].endswith("run the import again")
    assert not (out / "images/2.dcm").exists()


def test_what_stands_where_images_belong_is_one_line(tmp_path: Path) -> None:
    save_dicom(tmp_path / "tree/1.dcm", 1)

    def tell(now: str, _done: int, _total: int) -> None:
        if now == "putting images in place":
            (tmp_path / "out/images").write_text("")

    with pytest.raises(WorkError, match=r"images/1\.dcm: cannot be written \(File exists\)"):
        import_folder(tmp_path / "tree", tmp_path / "out", progress=tell)


def test_what_a_killed_import_put_there_goes_where_the_next_does_not_keep_it(
    tmp_path: Path,
) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    for number in (1, 2, 3):
        save_dicom(tree / f"ward/{number}.dcm", number, PixelData=bytes([number, 0] * 64))

    def killed(now: str, done: int, _total: int) -> None:
        if now == "putting images in place" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_folder(tree, out, progress=killed)
    assert (out / "images/ward/2.dcm").is_file()
    (out / "images/own.png").write_bytes(b"somebody's own")
    (tree / "ward/2.dcm").unlink()
    import_folder(tree, out)
    there = sorted(path.name for path in (out / "images").rglob("*.*"))
    assert there == ["1.dcm", "3.dcm", "own.png"]
