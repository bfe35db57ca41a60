"""Write a drawn data set: images with several processes, then the tables."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from uuid import NAMESPACE_OID, uuid5

import numpy as np
from PIL import Image

from cxrtext.errors import DataError, WorkError
from cxrtext.files import SUMS, replacing, sealed, sha256, unsealed, write_json, write_sums
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.images.sandbox_worker import cores
from cxrtext.phantom.render import draw
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.studies import PhantomStudy, draw_patient, draw_studies
from cxrtext.phantom.tables import TABLES, PhantomSummary, write_tables

VERSION = 4  # raise it whenever the same parameters would give other images or reports
PARAMETERS = "phantom.json"
BOXES = "phantom.boxes.jsonl"
"""What has been drawn, a line for each image, so that an interrupted run can resume."""

_CLASSES = {"CR": "1.2.840.10008.5.1.4.1.1.1", "DX": "1.2.840.10008.5.1.4.1.1.1.1"}

FIRST_DAY = date(2001, 1, 1)
"""The made-up day of every patient's first study."""
ImageFormat = Literal["png", "dicom"]
SUFFIXES = {"png": "png", "dicom": "dcm"}


def _uid(*parts: object) -> str:
    """A UID made from the names of its object, so that the same set gets the same UIDs."""
    return f"2.25.{uuid5(NAMESPACE_OID, '/'.join(map(str, parts))).int}"


def _save_dicom(out: BytesIO, picture: Map, study: PhantomStudy, seed: int) -> None:
    """Write a picture in [0, 1] with 12 of 16 bits; its window shows it as drawn."""
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.uid import UID, ExplicitVRLittleEndian

    patient = int(study.patient_id[1:])
    stored = np.round(picture * 4095.0).astype("<u2")
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(out, Dataset(), file_meta=meta, preamble=b"\0" * 128)
    file.Modality = "CR" if study.patient.view == "AP" else "DX"
    file.SOPClassUID = meta.MediaStorageSOPClassUID = UID(_CLASSES[file.Modality])
    file.SOPInstanceUID = meta.MediaStorageSOPInstanceUID = UID(_uid(seed, study.number, "image"))
    file.StudyInstanceUID = _uid(seed, study.number, "study")
    file.SeriesInstanceUID = _uid(seed, study.number, "series")
    file.PatientName, file.PatientID = f"PHANTOM^{patient:04d}", f"PHANTOM-{seed}-{patient:06d}"
    file.PatientSex, file.PatientAge = study.sex, f"{study.age:03d}Y"
    file.PatientBirthDate = file.ReferringPhysicianName = file.StudyTime = ""
    file.StudyDate = f"{FIRST_DAY + timedelta(days=study.days):%Y%m%d}"
    file.StudyID = file.AccessionNumber = study.study_id
    file.SeriesNumber = file.InstanceNumber = "1"
    file.Manufacturer, file.ImageType = "cxrtext phantom", ["DERIVED", "PRIMARY"]
    file.BodyPartExamined, file.ViewPosition = "CHEST", study.patient.view
    file.PatientOrientation, file.PresentationIntentType = ["L", "F"], "FOR PRESENTATION"
    file.BurnedInAnnotation, file.LossyImageCompression = "NO", "00"
    file.Rows, file.Columns = stored.shape
    file.ImagerPixelSpacing = [f"{400.0 / file.Rows:.6g}"] * 2
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME2"
    file.BitsAllocated, file.BitsStored, file.HighBit, file.PixelRepresentation = 16, 12, 11, 0
    file.WindowCenter, file.WindowWidth = "2048", "4096"
    file.PixelData = stored.tobytes()
    file.save_as(out, enforce_file_format=True)


def draw_task(task: dict[str, Any], _: bytes) -> tuple[Any, bytes]:
    """Draw a study: finding, part and corners of its boxes, and the image file."""
    study = draw_patient(task["seed"], task["patient"], task["first"])[task["follow_up"]]
    picture, effects = draw(study.patient, task["size"])
    out = BytesIO()
    if task["image_format"] == "dicom":
        _save_dicom(out, picture, study, task["seed"])
    else:
        gray = Image.fromarray(np.round(picture * 255.0).astype(np.uint8))
        # Noise hardly compresses: a higher level costs much time for little.
        gray.save(out, format="PNG", compress_level=2)
    boxes = [(effect.finding, effect.part, effect.box()) for effect in effects]
    return boxes, out.getvalue()


def _claim_folder(out: Path, parameters: dict[str, Any]) -> None:
    """Note the parameters in the folder, or check them against the note."""
    note = out / PARAMETERS
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: is a file; name a folder")
    if note.is_file():
        try:
            noted = json.loads(note.read_text(encoding="utf-8"))
        except ValueError:
            raise DataError(f"{note}: not readable; remove the folder or name another") from None
        if noted != parameters:
            raise DataError(f"{note}: the set was made with other parameters; name another folder")
        return
    # Hidden files may be left from a killed run that wrote the note.
    if out.is_dir() and any(not entry.name.startswith(".") for entry in out.iterdir()):
        raise DataError(f"{out}: the folder is not empty and was not made by phantom; name another")
    write_json(note, parameters)


def _read_drawn(out: Path) -> dict[str, Any]:
    """Boxes of images that earlier runs drew, by image; damaged lines and images are left out."""
    drawn = {}
    for line in (out / BOXES).read_bytes().splitlines() if (out / BOXES).is_file() else []:
        try:
            noted = unsealed(line)
        except ValueError:
            continue
        path = out / noted["image"]
        if path.is_file() and sha256(path) == noted["digest"]:
            drawn[noted["image"]] = noted["boxes"]
    return drawn


def _draw_missing(
    out: Path,
    tasks: dict[str, dict[str, Any]],
    workers: int,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Draw what no earlier run has drawn, and return all boxes by image."""
    drawn = _read_drawn(out)
    missing = [task for image, task in tasks.items() if image not in drawn]
    progress(len(drawn), len(tasks))
    with (out / BOXES).open("a", encoding="utf-8") as log:
        log.write("\n")  # ends a line that a killed run may have left open
        for task, answer in answers(draw_task, missing, 0 if workers == 1 else workers):
            if isinstance(answer, ProcessLost):
                lost = f"a drawing process died ({answer.reason})"
                raise WorkError(f"{out}: {lost}; run the same command again to go on")
            boxes, data = answer
            with replacing(out / task["image"]) as temporary:
                temporary.write_bytes(data)
            noted = {"image": task["image"], "digest": sha256(out / task["image"]), "boxes": boxes}
            log.write(json.dumps(sealed(noted)) + "\n")
            log.flush()
            drawn[task["image"]] = boxes
            progress(len(drawn), len(tasks))
    return drawn


def write_phantoms(
    out: Path,
    *,
    studies: int,
    size: int = 512,
    seed: int = 0,
    image_format: ImageFormat = "png",
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> PhantomSummary:
    """Write a drawn data set: images, manifest, reports, labels, boxes and truth.

    An interrupted run resumes where it stopped; existing images are not drawn again.  Images depend
    only on the seed and their number, not on the number of processes.

    Args:
        out: The folder; it must be new, empty, or from a run with the same parameters.
        studies: How many studies, one frontal image each.
        size: Pixels along each side of an image, 64 to 1024.
        image_format: "png", 8 bit, or "dicom", 12 bit.
        workers: Processes; by default as many as there are cores.
    """
    for name, value, fits, needed in (
        ("studies", studies, studies >= 1, "1 or more"),
        ("size", size, 64 <= size <= 1024, "from 64 to 1024 pixels"),
        ("seed", seed, seed >= 0, "0 or more"),
        ("image format", f"'{image_format}'", image_format in SUFFIXES, "png or dicom"),
    ):
        if not fits:
            raise DataError(f"{name} is {value}; it must be {needed}")
    drawn = {"size": size, "seed": seed, "image_format": image_format}
    _claim_folder(out, {"version": VERSION, "studies": studies, **drawn})
    planned = draw_studies(studies, seed)
    (out / "images").mkdir(exist_ok=True)
    (out / SUMS).unlink(missing_ok=True)  # until the set is whole
    names = [f"images/{study.study_id}.{SUFFIXES[image_format]}" for study in planned]
    tasks = {
        name: {
            **drawn,
            "image": name,
            "patient": int(study.patient_id[1:]) - 1,
            "first": study.number - study.follow_up,
            "follow_up": study.follow_up,
        }
        for name, study in zip(names, planned, strict=True)
    }
    boxes = _draw_missing(out, tasks, workers or cores(), progress)
    summary = write_tables(out, planned, names, boxes, size)
    write_sums(out, (PARAMETERS, *TABLES, *names))
    return summary
