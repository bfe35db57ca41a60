"""A hospital's archive with everything that hospitals do, imported: nothing is lost silently.

    python benchmarks/images/archive.py FOLDER --studies 2000 --kills 10

It makes an archive of DICOM files, HL7 messages and structured reports with planted faults (the
same seed, the same bytes), imports it, and compares every count with what was planted.  Then it
imports again, kills an import with SIGKILL at random moments and lets it end, and mends equal
pixels.  It prints Markdown tables and fails where a count or a byte is another.
"""

import argparse
import csv
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import UID, ExplicitVRLittleEndian

from cxrtext.datasets.admission.decide import MOVED
from cxrtext.datasets.importing import ImportOptions, ImportSummary, import_folder

CR = "1.2.840.10008.5.1.4.1.1.1"
SIDE = 64
PICTURES = 24
CHARSETS = (
    ("ISO_IR 100", "8859/1", "latin-1", "Müller^Jörg", "Größe regelrecht.", "Thorax seitlich"),
    ("ISO_IR 192", "UNICODE UTF-8", "utf-8", "Çelik^Ayşe", "Œdème: absent.", "Thorax de profil"),
    (
        "ISO_IR 144",
        "8859/5",
        "iso8859-5",
        "Иванов^Пётр",
        "Лёгкие чистые.",
        "Torace latero-laterale",
    ),
    ("ISO_IR 126", "8859/7", "iso8859-7", "Παππάς^Νίκος", "Πνεύμονες καθαροί.", "Thorax perfil"),
    ("ISO_IR 101", "8859/2", "iso8859-2", "Dvořák^Jiří", "Plíce čisté.", "X-thorax lateraal"),
)
"""Of DICOM, of HL7, Python's name, a patient, a report, a lateral's description."""

PARTS = (
    *("ABDOMEN", "PELVIS", "KNEE", "HAND", "LSPINE", "BECKEN", "HWS", "SCHULTER", "GENOU"),
    *("CHEVILLE", "RODILLA", "CADERA", "GINOCCHIO", "SPALLA", "ENKEL", "HEUP", "JOELHO", "SKULL"),
)


@dataclass
class Planted:
    files: int = 0  # files in the tree
    report_files: int = 0  # of them, those that hold reports
    images: int = 0  # images that enter
    left_out: Counter[str] = field(default_factory=Counter)  # files by why they stay out
    reports: Counter[str] = field(default_factory=Counter)  # versions by what becomes of them
    mirrored: int = 0  # images stored mirrored, as their header says
    same_images: int = 0  # images that have the pixels of another


class Maker:
    """Makes the archive, study by study."""

    def __init__(self, root: Path) -> None:
        self.root, self.planted = root, Planted()
        self.rows: list[dict[str, str]] = []  # of the table of reports
        self.merged: list[tuple[str, str]] = []
        self._pictures = _pictures()

    def study(self, i: int) -> None:
        """One study: a frontal image, a lateral, its report, and what is planted in it."""
        slot, issuer = i % 100, ("NORD", "SUED")[i % 2]
        ids: dict[str, Any] = {
            "StudyInstanceUID": f"1.2.9.{i}", "AccessionNumber": f"{i // 2:07d}",
            "PatientID": f"{i // 6:06d}", "IssuerOfPatientID": issuer,
            "IssuerOfAccessionNumberSequence": Sequence([_issuer(issuer)]),
            "SpecificCharacterSet": CHARSETS[i % 5][0], "PatientName": CHARSETS[i % 5][3],
        }  # fmt: skip
        if slot == 28:
            self.merged.append((f"{issuer}:OLD{i}", f"{issuer}:{ids['PatientID']}"))
            ids["PatientID"] = f"OLD{i}"
        folder = f"{i // 100:02d}/{i}"
        frontal = {"ViewPosition": ("PA", "AP")[i % 3 == 0], "BodyPartExamined": "CHEST", **ids}
        pixels = self._pixels(i)
        kept = 1
        if 16 <= slot <= 20:  # stored mirrored; the header says so
            self.planted.mirrored += 1
            self._image(
                f"{folder}/pa", i, pixels[:, ::-1], **frontal, PatientOrientation=["R", "F"]
            )
        elif slot == 25:
            self._image(f"{folder}/pa", i, pixels[:9], **frontal, Rows=SIDE)
            self._out("damaged or wrong")
            kept = 0
        else:
            self._image(f"{folder}/pa", i, pixels, **frontal)
        self._lateral(i, folder, ids)
        kept += self._special(i, slot, folder, frontal, pixels)
        self.planted.images += kept
        self._report(i, slot, issuer, ids["PatientID"], has_image=kept > 0)

    def _lateral(self, i: int, folder: str, ids: dict[str, Any]) -> None:
        """A lateral that says so by its view, its orientation, or a description."""
        ways: list[dict[str, Any]] = [
            {"ViewPosition": "LL"},
            {"PatientOrientation": [("A", "P")[i % 8 > 3], "F"]},
            {"SeriesDescription": CHARSETS[i % 5][5]},
            {"ViewPosition": "PA", "PatientOrientation": ["A", "F"]},
        ]
        self._image(f"{folder}/lat", 10_000_000 + i, self._pixels(i), **ids, **ways[i % 4])
        self._out("its header names a frontal and another view" if i % 4 == 3 else "lateral view")

    def _special(
        self, i: int, slot: int, folder: str, frontal: dict[str, Any], pixels: Any
    ) -> int:  # fmt: skip
        """What is planted in one slot of a hundred; how many more images enter by it."""
        path, number = f"{folder}/special", 20_000_000 + i
        if slot <= 4:
            self._image(path, i, pixels, **frontal)
            self._out("the same SOPInstanceUID as another file")
        elif slot <= 9:
            wrong = {**frontal, "PatientID": f"WRONG{i}"}
            changed = Dataset()
            changed.AttributeModificationDateTime = "20240301120000"
            right = {**frontal, "OriginalAttributesSequence": Sequence([changed])}
            self._image(path, i, pixels, **right)
            self._image(f"{folder}/pa", i, pixels, count=False, **wrong)
            self._out("an earlier version: its header was corrected in another file")
        elif slot <= 13:
            other = {"StudyInstanceUID": f"1.2.8.{i}", "PatientID": f"D{i}", "AccessionNumber": ""}
            self._image(path, number, pixels, **{**frontal, **other})
            self.planted.same_images += 1
            return 1
        elif slot <= 15:
            self._image(path, number, pixels, **frontal)
            self.planted.same_images += 1
            return 1
        elif slot == 27:
            self._image(path, number, self._pixels(number), **{**frontal, "PatientID": f"B{i}"})
            for _ in range(2):
                self._out("its study is under two patients")
            return -1
        elif 31 <= slot <= 48:
            part = {**frontal, "BodyPartExamined": PARTS[slot - 31]}
            self._image(path, number, self._pixels(number), **part)
            self._out("another body part")
        elif slot in _OBJECTS:
            reason, elements = _OBJECTS[slot]
            self._image(path, number, self._pixels(number), **{**frontal, **elements})
            self._out(reason)
        elif slot == 26:
            self._bytes(path + ".txt", b"Anna Schmidt was here")
            self._out("no DICOM file")
        return 0

    def _report(self, i: int, slot: int, issuer: str, patient: str, *, has_image: bool) -> None:
        text = f"FINDINGS: {CHARSETS[i % 5][4]} Study {i}."
        send = self._message(i, issuer, patient if slot != 29 else "SOMEONE")
        counts = self.planted.reports
        if slot == 29:
            send(text, "F", "20240301")
            counts["other_patient"] += 1
            return
        if slot == 30:
            self._row(i, text, "final", "2024-03-01")
            for n in range(101):
                self._row(i, f"Addendum {n} of {i}.", "addendum", f"2024-04-{n % 28 + 1:02d}")
            counts["written"] += 1
            counts["addenda"] += 101
            return
        what: tuple[str, ...] = ()
        if i % 5 == 0:
            self._row(i, text, "", "")
            what = ("written",)
        elif i % 5 == 1:
            send(f"{text} Pneumonia?", "P", "20240301")
            send(text, "F", "20240302")
            send(text, "F", "20240302")
            what = ("replaced", "written", "again")
        elif i % 5 == 2:
            self._sr(i, text)
            what = ("written",)
        elif i % 5 == 3:
            send(f"{text} Corrected.", "C", "20240302")
            send(text, "F", "20240303")
            send(f"Late news of {i}.", "F", "20240304", code="18748-4&ADT")
            what = ("written", "replaced", "addenda")
        else:
            send(text, "P", "20240301")
            what = ("written",)
        counts.update(what if has_image else ["without_study"] * len(what))

    def _message(self, i: int, issuer: str, patient: str) -> Any:
        path = f"ris/{i}.hl7"
        _, charset, codec, name, *_ = CHARSETS[i % 5]

        def send(text: str, status: str, at: str, code: str = "18748-4") -> None:
            lines = (
                f"MSH|^~\\&|RIS|H|P|H|{at}||ORU^R01|{i}|P|2.5.1||||||{charset}",
                f"PID|1||{patient}^^^{issuer}||{name}",
                f"OBR|1||{i // 2:07d}^{issuer}|36643-5|||{at}|||||||||||||||{at}|||{status}",
                f"OBX|1|TX|{code}||{text}||||||F",
            )
            data = "\r".join(lines).encode(codec)
            place = self.root / "tree" / path
            if not place.is_file():
                self._bytes(path, data)
                self.planted.report_files += 1
            else:
                place.write_bytes(place.read_bytes() + b"\r" + data)

        return send

    def _row(self, i: int, text: str, status: str, at: str) -> None:
        row = {"study_id": f"1.2.9.{i}", "report": text, "status": status, "time": at}
        self.rows.append(row)

    def _sr(self, i: int, text: str) -> None:
        file = _file("1.2.840.10008.5.1.4.1.1.88.11", 30_000_000 + i)
        file.SpecificCharacterSet = CHARSETS[i % 5][0]
        file.Modality, file.StudyInstanceUID = "SR", f"1.2.9.{i}"
        file.ContentDate, file.ContentTime = "20240301", "120000"
        file.CompletionFlag, file.VerificationFlag = "COMPLETE", "VERIFIED"
        file.ConceptNameCodeSequence = _coded("18748-4", "Diagnostic imaging report")
        item = Dataset()
        item.ValueType, item.TextValue = "TEXT", text.removeprefix("FINDINGS: ")
        item.ConceptNameCodeSequence = _coded("59776-5", "Findings")
        file.ContentSequence = Sequence([item])
        self._save(f"{i // 100:02d}/{i}/sr", file)
        self.planted.report_files += 1

    def _pixels(self, seed: int) -> Any:
        noise = np.random.default_rng(seed).integers(0, 40, (SIDE, SIDE))
        return (self._pictures[seed % PICTURES] + noise).astype("<u2")

    def _image(
        self, path: str, number: int, pixels: Any, *, count: bool = True, **elements: Any
    ) -> None:
        file = _file(elements.pop("SOPClassUID", CR), number)
        values: dict[str, Any] = {
            "Modality": "CR", "SamplesPerPixel": 1, "PhotometricInterpretation": "MONOCHROME2",
            "Rows": pixels.shape[0], "Columns": SIDE, "BitsAllocated": 16, "BitsStored": 12,
            "HighBit": 11, "PixelRepresentation": 0, "WindowCenter": "2048", "WindowWidth": "4096",
            "PixelData": np.ascontiguousarray(pixels).tobytes(), **elements,
        }  # fmt: skip
        for keyword, value in values.items():
            setattr(file, keyword, value)
        self._save(path, file, count=count)

    def _save(self, path: str, file: FileDataset, *, count: bool = True) -> None:
        place = self.root / "tree" / f"{path}.dcm"
        place.parent.mkdir(parents=True, exist_ok=True)
        file.save_as(place, enforce_file_format=True)
        self.planted.files += count

    def _bytes(self, path: str, data: bytes) -> None:
        place = self.root / "tree" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        self.planted.files += 1

    def _out(self, reason: str) -> None:
        self.planted.left_out[reason] += 1


_OBJECTS: dict[int, tuple[str, dict[str, Any]]] = {
    21: (
        "secondary capture (screen shot, scan or derived picture)",
        {"SOPClassUID": "1.2.840.10008.5.1.4.1.1.7"},
    ),
    22: (
        "another modality than CR, DX or DR",
        {"SOPClassUID": "1.2.840.10008.5.1.4.1.1.2", "Modality": "CT"},
    ),
    23: ("raw detector data (for processing)", {"PresentationIntentType": "FOR PROCESSING"}),
    24: ("several frames in one file", {"NumberOfFrames": "2"}),
}


def _pictures() -> list[Any]:
    """Some drawn radiographs, [SIDE, SIDE] with 12 bits."""
    from cxrtext.phantom import Patient, draw_phantom
    from cxrtext.phantom.state import State

    patients = (Patient(State(), ("PA", "AP")[n % 2], (1, n), (2, n)) for n in range(PICTURES))
    return [draw_phantom(patient, SIDE)[0] * 4000 for patient in patients]


def _file(sop_class: str, number: int) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = (
        UID(sop_class),
        UID(f"1.2.3.{number}"),
    )
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset("", Dataset(), file_meta=meta, preamble=b"\0" * 128)
    file.SOPClassUID, file.SOPInstanceUID = UID(sop_class), UID(f"1.2.3.{number}")
    return file


def _issuer(name: str) -> Dataset:
    item = Dataset()
    item.LocalNamespaceEntityID = name
    return item


def _coded(value: str, meaning: str) -> Sequence:
    code = Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, "LN", meaning
    return Sequence([code])


def make(root: Path, studies: int) -> Planted:
    """Make the archive below ``root``: ``tree/``, ``reports.csv`` and ``merged.csv``."""
    maker = Maker(root)
    for i in range(studies):
        maker.study(i)
    _table(root / "reports.csv", ("study_id", "report", "status", "time"), maker.rows)
    merged = [{"patient_id": old, "merged_into": new} for old, new in maker.merged]
    _table(root / "merged.csv", ("patient_id", "merged_into"), merged)
    return maker.planted


def _table(path: Path, columns: tuple[str, ...], rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, columns)
        writer.writeheader()
        writer.writerows(rows)


def load(root: Path, out: Path, **options: Any) -> ImportSummary:
    chosen = ImportOptions(
        max_rejected=1_000_000,
        reports=root / "reports.csv",
        merged_patients=root / "merged.csv",
        **options,
    )
    return import_folder(root / "tree", out, chosen)


def compare(planted: Planted, found: ImportSummary) -> list[tuple[str, int, int]]:
    """What was planted and what was found, by what; the messages of one file count as one."""
    versions = dict(found.report_versions or {})
    kinds = sorted({*planted.left_out, *found.set_aside} - {_OTHER_PATIENT})
    out = sum(found.set_aside.get(kind, 0) for kind in kinds)
    rows = [
        ("files in the tree", planted.files, found.images + out + planted.report_files),
        ("images that enter", planted.images, found.images),
        ("of them stored mirrored", planted.mirrored, found.notes.get(MOVED["mirrored"], 0)),
    ]
    rows += [
        (f"out: {kind}", planted.left_out[kind], found.set_aside.get(kind, 0)) for kind in kinds
    ]
    rows.append(
        ("images with the pixels of another", planted.same_images, sum(found.same_images.values()))
    )
    rows += [
        (f"reports: {what}", planted.reports[what], versions[what])
        for what in ("written", "addenda", "replaced", "again", "without_study", "other_patient")
    ]
    rows.append(("reports: all versions", planted.reports.total(), versions["versions"]))
    return rows


_OTHER_PATIENT = "names another patient than its study"


def digest(out: Path) -> str:
    """A digest of everything in a data folder, but for what only saves time."""
    total = hashlib.sha256()
    for path in sorted(out.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            total.update(str(path.relative_to(out)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def killed(root: Path, out: Path, kills: int, seconds: float) -> str:
    """Import, killed at random moments, until it has ended; the digest of what it made."""
    command = [
        *(sys.executable, "-c", "from cxrtext_cli.main import main; main()", "import"),
        *(str(root / "tree"), "--out", str(out)),
        *("--reports", str(root / "reports.csv"), "--merged-patients", str(root / "merged.csv")),
        *("--max-rejected", "1000000"),
    ]
    chance = random.Random(0)  # noqa: S311 - moments
    moments: list[str] = []
    while len(moments) < kills:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        moment = chance.uniform(0.05, 0.4) * seconds
        time.sleep(moment)
        child.send_signal(signal.SIGKILL)
        if child.wait() == 0:  # it had ended: from the beginning
            shutil.rmtree(out)
        else:
            moments.append(f"{moment:.0f}")
    print(f"\nkilled after {', '.join(moments)} s")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return digest(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    root: Path = options.folder
    shutil.rmtree(root, ignore_errors=True)
    planted = make(root, options.studies)
    begun = time.monotonic()
    found = load(root, root / "data")
    seconds = time.monotonic() - begun
    print(f"{options.studies} studies, {planted.files} files; imported in {seconds:.0f} s on "
          f"{os.cpu_count()} cores\n\n| what | planted | found |\n|---|---|---|")  # fmt: skip
    rows = compare(planted, found)
    for what, made, seen in rows:
        print(f"| {what} | {made} | {seen} |")
    assert all(made == seen for _, made, seen in rows), "a count is another"
    first = digest(root / "data")
    again = load(root, root / "data")
    assert (again, digest(root / "data")) == (found, first), "a second import changed something"
    print("\nimported again: nothing changed")
    if options.kills:
        assert killed(root, root / "killed", options.kills, seconds) == first
        print(f"killed {options.kills} times: the same bytes")


if __name__ == "__main__":
    main()
