"""check-data on DICOM images that lie turned or mirrored, with boxes drawn on them as stored."""

import csv
from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from cxrtext.datasets.checking import CheckOptions, CheckReport, check_data
from cxrtext.datasets.checking.facts import ImageFacts
from cxrtext.datasets.checking.images import suspicions
from cxrtext.datasets.checking.manifest import ListedImage

HEADERS: dict[str, dict[str, object]] = {
    "upright": {"PatientOrientation": ["L", "F"], "BurnedInAnnotation": "NO"},
    "mirrored": {"PatientOrientation": ["R", "F"]},
    "turned": {"PatientOrientation": ["F", "R"]},
    "cosines": {"ImageOrientationPatient": [-1, 0, 0, 0, 0, -1]},
    "oblong": {"ImagerPixelSpacing": [0.1, 0.2]},
    "text": {"BurnedInAnnotation": "YES"},
}
CODES = {
    "image-mirrored": ["mirrored", "cosines"],
    "image-turned": ["turned"],
    "pixels-not-square": ["oblong"],
    "burned-in": ["text"],
}


def save(path: Path, gray: np.ndarray, header: dict[str, object]) -> None:
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    file.SOPClassUID, file.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.1.1", "1.2.3"
    file.Modality, file.ViewPosition = "DX", "PA"
    file.Rows, file.Columns = gray.shape
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME2"
    file.BitsAllocated, file.BitsStored, file.HighBit, file.PixelRepresentation = 8, 8, 7, 0
    file.WindowCenter, file.WindowWidth = "128", "256"
    for keyword, value in header.items():
        setattr(file, keyword, value)
    file.PixelData = gray.tobytes()
    file.save_as(path, enforce_file_format=True)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    folder = tmp_path_factory.mktemp("set")
    with (folder / "manifest.csv").open("w", newline="") as handle:
        rows = csv.writer(handle)
        rows.writerow(["image", "study_id", "patient_id", "split", "view"])
        for number, (name, header) in enumerate(HEADERS.items()):
            noise = np.random.default_rng(number).integers(40, 215, (90, 120), dtype=np.uint8)
            save(folder / f"{name}.dcm", noise, header)
            rows.writerow([f"{name}.dcm", f"s{number}", f"p{number}", "train", "PA"])
    with (folder / "boxes.csv").open("w", newline="") as handle:
        rows = csv.writer(handle)
        rows.writerow(["image", "label_text", "x", "y", "w", "h", "width", "height"])
        for name in HEADERS:
            rows.writerow([f"{name}.dcm", "Edema.", 100, 60, 20, 30, 120, 90])
    return check_data(folder, CheckOptions(workers=1))


@pytest.mark.parametrize("code", CODES)
def test_they_are_listed(report: CheckReport, code: str) -> None:
    (problem,) = (one for one in report.problems if one.kind.code == code)
    assert [example.split(".")[0] for example in problem.examples] == CODES[code]


def test_boxes_on_the_stored_pixels_are_right(report: CheckReport) -> None:
    codes = {problem.kind.code for problem in report.problems}
    assert not codes & {"box-outside", "box-image-resized"}
    assert report.summary["images read"] == len(HEADERS)


@pytest.mark.parametrize(
    ("view", "header", "code"),
    [
        ("AP", "AP_PORTABLE", ""), ("PA", "P.A.", ""), ("PA", "POSTERO-ANTERIOR", ""),
        ("frontal", "PA", ""), ("AP Supine", "AP", ""), ("PA", "AP ERECT", "view-differs"),
        ("p.a.", "A.P.", "view-differs"), ("PA", "SEITLICH", "view-lateral"),
        ("LATERAL", "", "view-lateral"), ("PA", "", ""),
    ],
)  # fmt: skip
def test_views_are_compared_however_they_are_spelled(view: str, header: str, code: str) -> None:
    facts = ImageFacts(width=100, height=100, high=200, mean=100.0, view=header)
    listed = ListedImage(1, "a.dcm", "/a.dcm", "s", "p", "train", view.upper())
    assert suspicions(listed, facts) == ([code] if code else [])
