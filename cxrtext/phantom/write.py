"""Writing an embedded data set: images by several processes, then the tables."""

import hashlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from PIL import Image

from cxrtext.errors import DataError, WorkError
from cxrtext.files import SEAL, SUMS, replacing, seal_of, sealed, sha256, write_json, write_sums
from cxrtext.images.sandbox_worker import cores, end_with
from cxrtext.phantom.render import PlacedBox, paint, placed_boxes
from cxrtext.phantom.scanners import SCANNERS, site
from cxrtext.phantom.sentences.grammar import Language
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.studies import PhantomStudy, draw_studies
from cxrtext.phantom.tables import TABLES, PhantomSummary, write_tables

if TYPE_CHECKING:
    from pydicom.dataset import FileDataset

DETECTOR = 400.0  # side of the detector in mm

CLASSES = {"CR": "1.2.840.10008.5.1.4.1.1.1", "DX": "1.2.840.10008.5.1.4.1.1.1.1"}
"""SOP classes: computed radiography, and digital X-ray for presentation."""


def _uid(*parts: object) -> str:
    """A UID made from a digest of what it names, so that the same set gets the same ones."""
    text = "/".join(map(str, ("phantom", *parts)))
    return f"2.25.{int(hashlib.sha256(text.encode()).hexdigest()[:32], 16)}"


def save_dicom(path: Path, picture: Map, study: PhantomStudy, seed: int) -> None:
    """Write a picture in [0, 1] with 12, 14, 15 or 16 of 16 bits; its window shows it as drawn.

    About one study in five is MONOCHROME1, where high values are dark.  One in four has a second,
    harder window after the first.
    """
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.uid import UID, ExplicitVRLittleEndian

    generator = study.patient.stream("dicom")
    low, high = int(generator.integers(0, 500)), int(generator.integers(3000, 4096))
    inverted = bool(generator.random() < 0.2)
    bits = (12, 12, 12, 14, 15, 16)[int(generator.integers(6))]
    low, high = low << (bits - 12), high << (bits - 12)
    two_windows = bool(generator.random() < 0.25)
    modality = "CR" if study.patient.view == "AP" else "DX"
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(CLASSES[modality])
    meta.MediaStorageSOPInstanceUID = UID(_uid(seed, study.number, "instance"))
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(str(path), Dataset(), file_meta=meta, preamble=b"\0" * 128)
    file.SOPClassUID = meta.MediaStorageSOPClassUID
    file.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    _describe_study(file, study, seed)
    file.Modality = modality
    stored = np.round(low + (1.0 - picture if inverted else picture) * (high - low)).astype("<u2")
    file.Rows, file.Columns = stored.shape
    _describe_device(file, study, modality)
    file.SamplesPerPixel = 1
    file.PhotometricInterpretation = "MONOCHROME1" if inverted else "MONOCHROME2"
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, bits, bits - 1
    file.PixelRepresentation = 0
    # With the linear function of PS3.3 C.11.2.1.2 this shows low as black and high as white.
    center, width = (low + high + 1) / 2, high - low + 1
    file.WindowCenter, file.WindowWidth = str(center), str(width)
    if two_windows:
        file.WindowCenter, file.WindowWidth = [str(center)] * 2, [str(width), str(width * 3 // 4)]
        file.WindowCenterWidthExplanation = ["NORMAL", "HARDER"]
    file.RescaleIntercept, file.RescaleSlope, file.RescaleType = "0", "1", "US"
    file.PresentationLUTShape = "INVERSE" if inverted else "IDENTITY"
    file.PixelData = stored.tobytes()
    file.save_as(path, enforce_file_format=True)


def _describe_study(file: "FileDataset", study: PhantomStudy, seed: int) -> None:
    number = int(study.patient_id[1:])
    file.PatientName = f"PHANTOM^{number:04d}"
    file.PatientID = f"PHANTOM-{seed}-{number:06d}"
    file.PatientBirthDate = ""
    file.PatientSex = study.patient.sex
    file.PatientAge = f"{study.age:03d}Y"
    file.StudyInstanceUID = _uid(seed, study.number, "study")
    file.SeriesInstanceUID = _uid(seed, study.number, "series")
    file.StudyID = study.study_id
    file.AccessionNumber = study.study_id
    file.StudyDate, file.StudyTime = "", ""
    file.ReferringPhysicianName = ""
    file.SeriesNumber, file.InstanceNumber = "1", "1"


def _describe_device(file: "FileDataset", study: PhantomStudy, modality: str) -> None:
    file.Manufacturer = "cxrtext phantom"
    file.ImageType = ["DERIVED", "PRIMARY"]
    file.BodyPartExamined = "CHEST"
    file.ViewPosition = study.patient.view
    file.PatientOrientation = ["L", "F"]
    file.Laterality = ""
    file.BurnedInAnnotation = "YES" if SCANNERS[site(study.patient.patient_key)].text else "NO"
    file.StationName = f"SITE{site(study.patient.patient_key)}"
    file.LossyImageCompression = "00"
    spacing = f"{DETECTOR / file.Rows:.6g}"
    file.ImagerPixelSpacing = [spacing, spacing]
    if modality == "DX":
        file.PresentationIntentType = "FOR PRESENTATION"
        file.PixelIntensityRelationship = "LOG"
        file.PixelIntensityRelationshipSign = -1


ImageFormat = Literal["png", "dicom"]
SUFFIXES = {"png": ".png", "dicom": ".dcm"}


@dataclass(frozen=True, slots=True)
class Job:
    out: Path  # the folder of the set
    size: int  # pixels along each side
    seed: int  # of the set
    image_format: str  # "png" or "dicom"


def image_name(study: PhantomStudy, image_format: str) -> str:
    """The ``image`` cell of the manifest."""
    return f"images/{study.study_id}{SUFFIXES[image_format]}"


def write_image(job: Job, study: PhantomStudy) -> list[PlacedBox]:
    """Draw and write one study's image; gives the boxes."""
    picture, effects = paint(study.patient, job.size)
    with replacing(job.out / image_name(study, job.image_format)) as temporary:
        if job.image_format == "png":
            gray = Image.fromarray(np.round(picture * 255.0).astype(np.uint8))
            # Noise hardly compresses, so that a higher level costs much time for little.
            gray.save(temporary, format="PNG", compress_level=2)
        else:
            save_dicom(temporary, picture, study, job.seed)
    return placed_boxes(effects)


def draw_chunk(job: Job, studies: list[PhantomStudy]) -> list[tuple[str, list[PlacedBox]]]:
    """Draw several studies, and give each one's id and boxes."""
    return [(study.study_id, write_image(job, study)) for study in studies]


VERSION = 3  # raised whenever the same parameters would give other images or reports
CHUNK = 8  # images that a process draws at a time; after Ctrl-C the chunks begun are finished
PARAMETERS = "phantom.json"
BOXES = "phantom.boxes.jsonl"
"""What has been drawn, a line an image, so that an interrupted run can go on."""


def _begin(parent: int) -> None:
    # Ctrl-C reaches every process of the terminal; only the first one acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()


def _check(job: Job, studies: int, workers: int | None, language: str) -> None:
    for name, value, fits, wanted in (
        ("studies", studies, studies >= 1, "1 or more"),
        ("size", job.size, 64 <= job.size <= 1024, "from 64 to 1024 pixels"),
        ("seed", job.seed, job.seed >= 0, "0 or more"),
        ("image format", f"'{job.image_format}'", job.image_format in SUFFIXES, "png or dicom"),
        ("language", f"'{language}'", language in get_args(Language), "en, de or es"),
        ("workers", workers, workers is None or workers >= 1, "1 or more"),
    ):
        if not fits:
            raise DataError(f"{name} is {value}; it must be {wanted}")


def _claim_folder(out: Path, parameters: dict[str, Any]) -> None:
    """Note the parameters in the folder, or check that they are the ones noted."""
    note = out / PARAMETERS
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: is a file; name a folder")
    if note.is_file():
        try:
            noted = json.loads(note.read_text(encoding="utf-8"))
        except ValueError:
            raise DataError(f"{note}: not readable; remove the folder or name another") from None
        if noted != parameters:
            raise DataError(
                f"{note}: the folder holds a set made with other parameters ({_named(noted)}, "
                f"not {_named(parameters)}); name another folder or remove this one"
            )
        return
    # Hidden files may be what a killed run has left of the note itself.
    if out.is_dir() and any(not entry.name.startswith(".") for entry in out.iterdir()):
        raise DataError(f"{out}: the folder is not empty and was not made by phantom; name another")
    write_json(note, parameters)


def _named(parameters: object) -> str:
    if not isinstance(parameters, dict):
        return "unknown"
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def _read_drawn(path: Path) -> dict[str, tuple[str, list[PlacedBox]]]:
    """Digest and boxes of the images that earlier runs drew; a damaged line is left out."""
    drawn: dict[str, tuple[str, list[PlacedBox]]] = {}
    lines = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for line in lines.splitlines():
        try:
            noted = json.loads(line)
            if noted.pop(SEAL) == seal_of(noted):
                boxes = [
                    PlacedBox(b["finding"], b["part"], tuple(b["bbox"])) for b in noted["boxes"]
                ]
                drawn[noted["study_id"]] = noted["image"], boxes
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return drawn


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C inside: interrupted a second time, the pool's shutdown would hang for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _drawing(job: Job, chunks: list[list[PhantomStudy]], workers: int) -> Iterator[Iterable[Any]]:
    """Give an iterable over the drawn chunks, in any order; on an error stop the processes."""
    if workers == 1 or len(chunks) == 1:
        yield (draw_chunk(job, chunk) for chunk in chunks)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(workers, len(chunks)), context, initializer=_begin, initargs=(os.getpid(),)
    )
    try:
        futures = [pool.submit(draw_chunk, job, chunk) for chunk in chunks]
        yield (future.result() for future in as_completed(futures))
    except BrokenProcessPool:
        raise WorkError(
            f"{job.out}: a drawing process died; run the same command again to go on, with fewer "
            "workers if memory was short"
        ) from None
    finally:
        with _uninterrupted():
            pool.shutdown(wait=True, cancel_futures=True)


def _draw_missing(
    job: Job, studies: list[PhantomStudy], workers: int, progress: Callable[[int, int], None] | None
) -> dict[str, list[PlacedBox]]:
    """Draw what no earlier run has drawn, and return the boxes of all."""
    paths = {study.study_id: job.out / image_name(study, job.image_format) for study in studies}
    boxes: dict[str, list[PlacedBox]] = {}
    for study_id, (digest, placed) in _read_drawn(job.out / BOXES).items():
        path = paths.get(study_id)
        if path is not None and path.is_file() and sha256(path) == digest:
            boxes[study_id] = placed
    missing = [study for study in studies if study.study_id not in boxes]
    done = len(studies) - len(missing)
    if progress:
        progress(done, len(studies))
    if not missing:
        return boxes
    chunks = [missing[i : i + CHUNK] for i in range(0, len(missing), CHUNK)]
    with (
        (job.out / BOXES).open("a", encoding="utf-8") as log,
        _drawing(job, chunks, workers) as drawn,
    ):
        log.write("\n")  # ends a line that a killed run may have left open
        for chunk in drawn:
            for study_id, placed in chunk:
                boxes[study_id] = placed
                noted: dict[str, Any] = {"study_id": study_id, "image": sha256(paths[study_id])}
                noted["boxes"] = [asdict(box) for box in placed]
                log.write(json.dumps(sealed(noted)) + "\n")
            log.flush()
            done += len(chunk)
            if progress:
                progress(done, len(studies))
    return boxes


def write_phantoms(
    out: Path,
    *,
    studies: int,
    size: int = 512,
    seed: int = 0,
    image_format: ImageFormat = "png",
    language: Language = "en",
    follow_ups: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PhantomSummary:
    """Write an embedded data set: images, manifest, reports, labels, boxes and truth.

    An interrupted run resumes where it stopped; images that are there are not drawn again.  The
    images depend on the seed and their number alone, not on the number of processes.  A script
    that calls this with several workers needs ``if __name__ == "__main__":`` round its main part,
    because the processes are started afresh (spawn).

    Args:
        out: The folder; it must be new, empty, or of a run with the same parameters.
        studies: How many studies, one frontal image each.
        size: Pixels along each side of an image, 64 to 1024.
        image_format: "png", 8 bit, or "dicom", 12 to 16 bit.
        language: Of the reports.
        follow_ups: Whether every patient comes back, with findings that have grown, shrunk or
            resolved.
        workers: Processes; by default as many as there are cores.
    """
    job = Job(out, size, seed, image_format)
    _check(job, studies, workers, language)
    drawn = {name: value for name, value in asdict(job).items() if name != "out"}
    drawn |= {"language": language} if language != "en" else {}
    drawn |= {"follow_ups": True} if follow_ups else {}
    _claim_folder(out, {"version": VERSION, "studies": studies, **drawn})
    planned = draw_studies(studies, seed, language, follow_ups=follow_ups)
    (out / "images").mkdir(exist_ok=True)
    (out / SUMS).unlink(missing_ok=True)  # until the set is whole
    boxes = _draw_missing(job, planned, workers or cores(), progress)
    names = [image_name(study, image_format) for study in planned]
    summary = write_tables(out, planned, names, boxes, size, follow_ups=follow_ups)
    write_sums(out, (PARAMETERS, *TABLES, *names))
    return summary
