"""Public sets in miniature: folders of exactly their layout, of invented people.

Each builder writes ``count`` images of a set into ``root`` and gives ``root`` back: its tables with
their own columns and spellings, its folders, and what is odd about it (VinDr-CXR's headers,
SIIM's " -1", PadChest's lists as text).  The same arguments give the same files.
"""

import hashlib
import json
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom.encaps import encapsulate
from pydicom.uid import JPEGBaseline8Bit

from tests.datasets.written import COMPUTED_RADIOGRAPHY, dicom_file, save_table

SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"


def gray(seed: int, height: int, width: int = 0) -> NDArray[np.uint8]:
    """Gray noise over a gradient, [height, width], by default a square."""
    ramp = np.linspace(60, 160, height)[:, None]
    noise = np.random.default_rng(seed).normal(0, 12, (height, width or height))
    return np.clip(ramp + noise, 0, 255).astype(np.uint8)


def save_picture(
    path: Path, seed: int = 0, height: int = 64, width: int = 0, *, deep: bool = False
) -> None:
    """Write a PNG or JPEG, by default a square; ``deep`` writes 16 bits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = gray(seed, height, width)
    Image.fromarray(pixels.astype(np.uint16) * 257 if deep else pixels).save(path)


def image_uid(number: int, kind: int = 4) -> str:
    """A UID as the tool wrote that made RSNA's and SIIM's files; kinds 2, 3, 4: study to object."""
    return (
        f"1.2.276.0.7230010.3.1.{kind}.8323329.{1000 + number}.1517875{number:03d}.{4100 + number}"
    )


@contextmanager
def oddly() -> Iterator[None]:
    """Have a function write values that the standard does not know without warnings."""
    with warnings.catch_warnings(action="ignore"):
        yield


@oddly()
def save_capture(path: Path, number: int, patient: str, size: int, **elements: Any) -> None:
    """A file as RSNA's and SIIM's: a JPEG of NIH's set wrapped as a secondary capture."""
    file = dicom_file(path, SECONDARY_CAPTURE, image_uid(number))
    file.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    stream = BytesIO()
    Image.fromarray(gray(number, size)).save(stream, "JPEG", quality=90)
    view = "AP" if number % 3 == 2 else "PA"
    values = {
        "SpecificCharacterSet": "ISO_IR 100", "StudyDate": "19010101", "StudyTime": "000000.00",
        "AccessionNumber": "", "Modality": "CR", "ConversionType": "WSD",
        "ReferringPhysicianName": "", "SeriesDescription": f"view: {view}",
        "PatientName": patient, "PatientID": patient, "PatientBirthDate": "",
        "PatientSex": "FM"[number % 2], "PatientAge": str(20 + number % 60),
        "BodyPartExamined": "CHEST", "ViewPosition": view,
        "StudyInstanceUID": image_uid(number, 2), "SeriesInstanceUID": image_uid(number, 3),
        "SeriesNumber": "1", "InstanceNumber": "1", "PatientOrientation": "",
        "SamplesPerPixel": 1, "PhotometricInterpretation": "MONOCHROME2", "Rows": size,
        "Columns": size, "PixelSpacing": [0.143, 0.143], "BitsAllocated": 8, "BitsStored": 8,
        "HighBit": 7, "PixelRepresentation": 0, "LossyImageCompression": "01",
        "LossyImageCompressionMethod": "ISO_10918_1",
        "PixelData": encapsulate([stream.getvalue()]),
    }  # fmt: skip
    for keyword, value in {**values, **elements}.items():
        setattr(file, keyword, value)
    file["PixelData"].is_undefined_length = True
    file["PixelData"].VR = "OB"
    file.save_as(path, enforce_file_format=True)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def patient_name(set_name: str, number: int) -> str:
    """The name of an image in RSNA's and SIIM's files, which stands for a patient: a UUID."""
    return str(uuid.UUID(bytes=_digest(f"{set_name} {number}")))


def rsna(root: Path, count: int = 12, size: int = 128) -> Path:
    """RSNA pneumonia: of every three images one has a box, one is normal and one is neither."""
    labels: list[dict[str, Any]] = []
    classes: list[dict[str, Any]] = []
    none = dict.fromkeys(("x", "y", "width", "height"), "")
    for number in range(count):
        patient = patient_name("rsna", number)
        save_capture(root / f"stage_2_train_images/{patient}.dcm", number, patient, size)
        boxes: list[dict[str, Any]] = [none]
        if number % 3 == 0:
            quarter = size / 4
            boxes = [{"x": quarter, "y": 10.0, "width": quarter, "height": 2 * quarter}]
            if number % 2 == 0:
                boxes.append({**boxes[0], "x": 2.5 * quarter})
        kind = ("Lung Opacity", "Normal", "No Lung Opacity / Not Normal")[number % 3]
        for box in boxes:
            labels.append({"patientId": patient, **box, "Target": int(number % 3 == 0)})
            classes.append({"patientId": patient, "class": kind})
    save_table(root / "stage_2_train_labels.csv", labels)
    save_table(root / "stage_2_detailed_class_info.csv", classes)
    tested = patient_name("rsna", count)
    save_capture(root / f"stage_2_test_images/{tested}.dcm", count, tested, size)
    submission = [{"patientId": tested, "PredictionString": "0.5 0 0 100 100"}]
    save_table(root / "stage_2_sample_submission.csv", submission)
    return root


def rsna_mapping(root: Path, count: int = 12) -> Path:
    """The list beside that says which image of NIH's set each is: pairs share a patient."""
    path = root / "pneumonia-challenge-dataset-mappings_2018.json"
    entries = []
    for number in range(count):
        name = f"{number // 2 + 1:08d}_{number % 2:03d}.png"
        own = {"subset_img_id": patient_name("rsna", number), "orig_labels": ["No Finding"]}
        uids = {"StudyInstanceUID": image_uid(number, 2), "SOPInstanceUID": image_uid(number)}
        entries.append({"img_id": name, **own, **uids})
    path.write_text(json.dumps(entries))
    return path


LOCAL = (
    *("Aortic enlargement", "Atelectasis", "Calcification", "Cardiomegaly", "Clavicle fracture"),
    *("Consolidation", "Edema", "Emphysema", "Enlarged PA", "ILD", "Infiltration", "Lung Opacity"),
    *("Lung cavity", "Lung cyst", "Mediastinal shift", "Nodule/Mass", "Pleural effusion"),
    *("Pleural thickening", "Pneumothorax", "Pulmonary fibrosis", "Rib fracture", "Other lesion"),
)
GLOBAL = ("COPD", "Lung tumor", "Pneumonia", "Tuberculosis")


def vindr_name(split: str, number: int) -> str:
    """The name of an image of VinDr-CXR: 32 hexadecimal digits."""
    return _digest(f"vindr {split} {number}").hex()


@oddly()
def save_vindr(path: Path, number: int, size: int) -> None:
    """A file as VinDr-CXR's, of which all but 25 elements were removed: one eighth wider than high.

    There is no SOPClassUID, Modality or ViewPosition, and the UID of the file header is an MD5.
    In turn, files have a window, are MONOCHROME1, say neither sex nor age, say an age that is
    none, or have the age under another VR.
    """
    file = dicom_file(path, COMPUTED_RADIOGRAPHY, path.stem)
    del file.SOPClassUID, file.SOPInstanceUID
    kind = number % 5
    if kind != 2:
        file.PatientSex = "O" if kind == 3 else "FM"[number % 2]
        file.add_new(0x00101010, "SH" if kind == 4 else "AS", "000Y" if kind == 3 else "061Y")
    pixels = gray(number, size, size + size // 8).astype("<u2") * 16
    file.SamplesPerPixel = 1
    file.PhotometricInterpretation = "MONOCHROME1" if kind == 1 else "MONOCHROME2"
    file.Rows, file.Columns = pixels.shape
    file.PixelSpacing = [0.139, 0.139]
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, 12, 11
    file.PixelRepresentation = 0
    file.WindowCenter, file.WindowWidth = "2048", "4096"
    file.PixelData = (4095 - pixels if kind == 1 else pixels).tobytes()
    file.save_as(path, enforce_file_format=True)


_VINDR_KINDS = ("Cardiomegaly", "Pleural effusion", "No finding", "Pneumonia")


def vindr(root: Path, count: int = 12, tested: int = 8, size: int = 128) -> Path:
    """VinDr-CXR: three readers of each training image, one consensus of each test image.

    In turn an image has an enlarged heart, fluid, nothing, or a pneumonia, of which there are
    labels only.  Of every fourth training image one reader alone sees a nodule.
    """
    names = ("No finding", "Other disease", "Other diseases")
    for split, number_of, other in (("train", count, names[2]), ("test", tested, names[1])):
        boxes: list[dict[str, Any]] = []
        labels: list[dict[str, Any]] = []
        for number in range(number_of):
            image = vindr_name(split, number)
            save_vindr(root / split / f"{image}.dicom", number + (split == "test") * 1000, size)
            kind = _VINDR_KINDS[number % 4]
            for reader in ("R8", "R9", "R10") if split == "train" else ("",):
                who = {"rad_id": reader} if reader else {}
                seen = {kind} | ({"Nodule/Mass"} if number % 4 == 1 and reader == "R9" else set())
                row = {name: int(name in seen) for name in (*LOCAL, *GLOBAL, other, "No finding")}
                labels.append({"image_id": image, **who, **row})
                marked = sorted(seen.intersection(LOCAL)) or ["No finding"]
                for name in marked:
                    at = (0.2, 0.5, 0.6, 0.8) if name != "Nodule/Mass" else (0.7, 0.1, 0.8, 0.2)
                    shift = 2 * len(reader)
                    place = [share * size + shift for share in at]
                    cells = ["", "", "", ""] if name == "No finding" else place
                    corners = dict(zip(("x_min", "y_min", "x_max", "y_max"), cells, strict=True))
                    boxes.append({"image_id": image, **who, "class_name": name, **corners})
        save_table(root / f"annotations/annotations_{split}.csv", boxes)
        save_table(root / f"annotations/image_labels_{split}.csv", labels)
    return root


def relative_runs(mask: NDArray[np.bool_]) -> str:
    """The runs of a mask as SIIM writes them: pixels to skip and to fill, in turn, by columns."""
    flat = np.concatenate([[0], mask.T.ravel().astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(flat))
    return " ".join(map(str, np.diff(np.concatenate([[0], edges]))))


def siim_mask(number: int, size: int) -> NDArray[np.bool_]:
    """The mask of an image, [size, size]: a strip along one side of the chest."""
    mask = np.zeros((size, size), dtype=bool)
    left = size // 8 if number % 4 else 6 * size // 8
    mask[size // 8 : size // 2, left : left + size // 8] = True
    return mask


def siim(root: Path, count: int = 12, size: int = 128) -> Path:
    """SIIM-ACR: every second image has a pneumothorax, of every sixth in two masks."""
    rows = []
    for number in range(count + 2):
        folder = "dicom-images-train" if number <= count else "dicom-images-test"
        name = image_uid(number)
        place = f"{folder}/{image_uid(number, 2)}/{image_uid(number, 3)}/{name}.dcm"
        save_capture(root / place, number, patient_name("siim", number), size)
        if number >= count:  # an image without a row, and one of the test images
            continue
        masks = [siim_mask(number, size)] if number % 2 == 0 else []
        if number % 6 == 0:
            lower = np.zeros((size, size), dtype=bool)
            lower[3 * size // 4 : 7 * size // 8, size // 8 : size // 4] = True
            masks.append(lower)
        for runs in map(relative_runs, masks) if masks else ("-1",):
            rows.append({"ImageId": name, " EncodedPixels": f" {runs}"})
    save_table(root / "train-rle.csv", rows)
    return root


DET10 = (
    *("Atelectasis", "Calcification", "Consolidation", "Effusion", "Emphysema", "Fibrosis"),
    *("Fracture", "Mass", "Nodule", "Pneumothorax"),
)


def chestxdet10(
    root: Path, count: int = 12, tested: int = 8, size: int = 1024, *, nih_names: bool = False
) -> Path:
    """ChestX-Det10: in turn nothing, fluid on both sides, and a nodule beside a consolidation.

    With ``nih_names`` as the lists were at first: then test images have patients of the training
    images too.
    """
    for split, number_of in (("train", count), ("test", tested)):
        entries = []
        for number in range(number_of):
            name = f"{36200 + 2 * number - (split == 'test')}.png"
            if nih_names:
                name = f"{number // 2 + 1:08d}_{number % 2 + 2 * (split == 'test'):03d}.png"
            save_picture(root / f"{split}_data" / name, number + 1000 * (split == "test"), size)
            scale = size / 1024
            found = [
                ([], []),
                (["Effusion", "Effusion"], [[150, 638, 229, 755], [799, 666, 937, 761]]),
                (["Nodule", DET10[number % 10]], [[339, 575, 386, 625], [133, 411, 329, 683]]),
            ][number % 3]
            boxes = [[int(scale * at) for at in box] for box in found[1]]
            entries.append({"file_name": name, "syms": found[0], "boxes": boxes})
        root.mkdir(parents=True, exist_ok=True)
        (root / f"{split}.json").write_text(json.dumps(entries))
    return root


_PADCHEST = (
    *("", "ImageID", "ImageDir", "StudyDate_DICOM", "StudyID", "PatientID", "PatientBirth"),
    *("PatientSex_DICOM", "ViewPosition_DICOM", "Projection", "MethodProjection", "Pediatric"),
    *("Modality_DICOM", "Manufacturer_DICOM", "PhotometricInterpretation_DICOM"),
    *("PixelRepresentation_DICOM", "PixelAspectRatio_DICOM", "SpatialResolution_DICOM"),
    *("BitsStored_DICOM", "WindowCenter_DICOM", "WindowWidth_DICOM", "Rows_DICOM"),
    *("Columns_DICOM", "XRayTubeCurrent_DICOM", "Exposure_DICOM", "ExposureInuAs_DICOM"),
    *("ExposureTime", "RelativeXRayExposure_DICOM", "ReportID", "Report", "MethodLabel", "Labels"),
    *("Localizations", "LabelsLocalizationsBySentence", "labelCUIS", "LocalizationsCUIS"),
)
PADCHEST_TABLE = "PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv"
_PADCHEST_KINDS = (
    (["normal"], "sin hallazgo patologic ."),
    (["cardiomegaly", "pleural effusion"], "cardiomegali . derram pleural izquierd ."),
    (["pneumonia", " air bronchogram", "unchanged"], "condens con broncogram aere ."),
    (["suboptimal study"], "estudi suboptim ."),
)


def padchest_name(number: int) -> str:
    return f"{2168401113669640 + number}_{number:02d}-014-084.png"


def padchest(root: Path, count: int = 12, size: int = 128) -> Path:
    """PadChest: pairs share a patient; the last three images are lateral, of ribs, and excluded."""
    rows: list[dict[str, Any]] = []
    for number in range(count + 3):
        labels, report = _PADCHEST_KINDS[number % 4]
        projection = ("PA", "AP", "AP_horizontal")[number % 3]
        if number >= count:
            projection = ("L", "COSTAL", "EXCLUDE")[number - count]
        folder = number % 2
        save_picture(root / f"{folder}/{padchest_name(number)}", number, size, deep=True)
        row: dict[str, Any] = dict.fromkeys(_PADCHEST, "") | {
            "": number, "ImageID": padchest_name(number), "ImageDir": folder,
            "StudyDate_DICOM": 20140915 + number,
            "StudyID": str(20536686640136348236148679891455000000 + number),
            "PatientID": str(839860488694292331637988235681000000 + number // 2),
            "PatientBirth": f"{1930 + number}.0", "PatientSex_DICOM": "FM"[number // 2 % 2],
            "ViewPosition_DICOM": "POSTEROANTERIOR" if projection == "PA" else "",
            "Projection": projection, "Pediatric": "No", "Report": report,
            "MethodLabel": "Physician" if number % 3 else "RNN_model", "Labels": str(labels),
            "Localizations": "['loc left', 'loc basal']",
        }  # fmt: skip
        rows.append(row)
    save_table(root / PADCHEST_TABLE, rows)
    return root


def _grounded(english: str, spanish: str, **drawn: Any) -> dict[str, Any]:
    """A finding of PadChest-GR: denied, or with what was drawn of it."""
    said = {"sentence_en": english, "sentence_es": spanish, "abnormal": bool(drawn)}
    rest: dict[str, Any] = {"boxes": [], "extra_boxes": [], "locations": [], "progression": None}
    return said | rest | drawn if drawn else said


_GROUNDED = (
    [
        _grounded("No pleural effusion.", "No derrame."),
        _grounded("Normal heart.", "Corazón normal."),
    ],
    [
        _grounded(
            "Left pleural effusion.", "Derrame pleural izquierdo.", labels=["pleural effusion"],
            boxes=[[0.55, 0.6, 0.9, 0.85]], extra_boxes=[[0.5, 0.6, 0.9, 0.9]], locations=["left"],
        ),
        _grounded("No pneumothorax.", "Sin neumotórax."),
    ],
    [
        _grounded(
            "Bilateral apical pleural thickening.", "Engrosamiento pleural biapical.",
            labels=["apical pleural thickening"], locations=["pleural"], progression="stable",
            boxes=[[0.1, 0.1, 0.35, 0.2], [0.6, 0.1, 0.85, 0.2]],
        ),
        _grounded(
            "Changes of chronic lung disease.", "Cambios de enfermedad crónica.",
            labels=["COPD signs"],
        ),
    ],
)  # fmt: skip


def padchest_gr(root: Path, count: int = 12, size: int = 128) -> Path:
    """PadChest-GR: in turn without a finding, with one box, and with two boxes and none.

    Images are a quarter wider than high.
    """
    grounded: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for number in range(count):
        image, study = f"{251488034557732338 + number}_wigcpj.png", str(159580160328898734 + number)
        place = root / "Padchest_GR_files/PadChest_GR" / image
        save_picture(place, number, size, size + size // 4, deep=True)
        findings = _GROUNDED[number % 3]
        ids = {"StudyID": study, "ImageID": image}
        previous = {"PreviousStudyID": None, "PreviousImageID": None}
        grounded.append({**ids, **previous, "findings": findings})
        for finding in findings:
            labels = finding.get("labels") or ["Normal"]
            row = {
                **ids, "label": labels[0], "boxes_count": len(finding.get("boxes", ())),
                "locations": str(finding.get("locations", [])), "prior_study": "",
                "sentence_en": finding["sentence_en"], "sentence_es": finding["sentence_es"],
                "split": ("train", "test", "train", "validation")[number // 3 % 4],
                "PatientID": str(839860488694292331637 + number // 3), "PatientBirth": "1930.0",
                "PatientSex_DICOM": "FM"[number // 3 % 2], "StudyDate_DICOM": 20140915,
                "PatientAge": 84, "label_group": labels[0], "Year": 2014,
            }  # fmt: skip
            rows.append(row)
    (root / "grounded_reports_20240819.json").write_text(json.dumps(grounded), encoding="utf-8")
    save_table(root / "master_table.csv", rows)
    return root


CHEXPERT_FINDINGS = (
    *("No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion"),
    *("Edema", "Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    *("Pleural Other", "Fracture", "Support Devices"),
)
FIVE = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")


def chexpert_5x200(root: Path, each: int = 4, size: int = 128, others: int = 3) -> Path:
    """CheXpert with the list of 5x200: ``each`` images of each finding, each of its own patient.

    Every listed patient has a second study that is not listed; ``others`` patients have none.
    """
    rows: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    for number in range(5 * each + others):
        finding = FIVE[number % 5]
        for study in (1, 2) if number < 5 * each else (1,):
            name = f"train/patient{number + 1:05d}/study{study}/view1_frontal.jpg"
            save_picture(root / name, 2 * number + study, size)
            who = {"Sex": ("Female", "Male")[number % 2], "Age": 40 + number % 40}
            view = {"Frontal/Lateral": "Frontal", "AP/PA": ("AP", "PA")[number % 2]}
            found = {name: "1.0" if name == finding else "" for name in CHEXPERT_FINDINGS}
            row = {"Path": f"CheXpert-v1.0/{name}", **who, **view, **found}
            rows.append(row)
            if study == 1 and number < 5 * each:
                zeros = {name: row[name] or "0.0" for name in CHEXPERT_FINDINGS}
                listed.append({**row, **zeros, "Report Impression": "1. INVENTED."})
    save_table(root / "train.csv", rows)
    save_table(root / "chexpert_5x200.csv", listed)
    return root


OPENI_TERMS = (
    *("normal", "Cardiomegaly/mild;Pleural Effusion/left/small", "Opacity/lung/base/right"),
    "Fractures, Bone/ribs;normal",
)


def openi(root: Path, count: int = 30, size: int = 64) -> Path:
    """Open-i as Kaggle lays it out: a frontal and a lateral image a study, terms in turn.

    The last study was not coded.
    """
    projections, reports = [], []
    for number in range(1, count + 1):
        for view, name in (("Frontal", "1001"), ("Lateral", "2001")):
            file = f"{number}_IM-{number:04d}-{name}.dcm.png"
            save_picture(root / "images/images_normalized" / file, number, size)
            projections.append({"uid": number, "filename": file, "projection": view})
        terms = OPENI_TERMS[number % len(OPENI_TERMS)] if number < count else "No Indexing"
        reports.append({"uid": number, "MeSH": terms, "findings": f"Invented, XXXX {number}."})
    save_table(root / "indiana_projections.csv", projections)
    save_table(root / "indiana_reports.csv", reports)
    return root


def nih_labels(root: Path, count: int = 24, size: int = 128) -> Path:
    """A data folder of ChestX-ray14's films; ``origin.csv`` says where each came from."""
    manifest, labels, boxes, origin = [], [], [], []
    findings = ("Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")
    for number in range(count):
        study = f"{number:08d}_000"
        save_picture(root / f"images/{study}.jpg", number, size)
        split = ("test", "test", "train", "val")[number % 4]
        place = {"image": f"images/{study}.jpg", "study_id": study, "patient_id": number}
        manifest.append({**place, "split": split, "view": "PA", "age": 50, "sex": "F"})
        own = findings[number // 2 % 5]
        labels.append({"study_id": study, **{name: int(name == own) for name in findings}})
        corners = dict(zip("xywh", (10.5, 20.0, 40.0, 50.5), strict=True))
        boxes.append({"image": place["image"], "label_text": own, **corners, "source": "nih"})
        origin.append({"image": f"{study}.jpg", "repository": f"a+{'xyz'[number % 3]}"})
    for name, rows in (("manifest", manifest), ("labels", labels), ("boxes", boxes)):
        save_table(root / f"{name}.csv", rows)
    save_table(root / "origin.csv", origin)
    return root


def mimic(root: Path, ending: str = ".jpg") -> Path:
    """Three patients, four studies; one lateral, one image that is not there."""
    images = [
        ("aa-1", "10000032", "50414267", "PA", "train"),
        ("aa-2", "10000032", "50414267", "LATERAL", "train"),
        ("bb-1", "10000764", "57375967", "AP", "validate"),
        ("cc-1", "11000011", "51967845", "", "test"),
        ("dd-1", "11000011", "51967846", "AP", "test"),
    ]
    rows = []
    for number, (dicom_id, subject, study, view, split) in enumerate(images):
        ids = {"dicom_id": dicom_id, "subject_id": subject, "study_id": study}
        rows.append({**ids, "ViewPosition": view, "split": split, "Rows": "64",
                     "StudyDate": "21800506", "StudyTime": "213014.531"})  # fmt: skip
        if dicom_id != "dd-1":
            folder = root / f"files/p{subject[:2]}/p{subject}"
            save_picture(folder / f"s{study}/{dicom_id}{ending}", number)
            (folder / f"s{study}.txt").write_text(f"FINDINGS: Study {number} is clear.")
    save_table(root / "mimic-cxr-2.0.0-metadata.csv", rows)
    save_table(root / "mimic-cxr-2.0.0-split.csv", rows)
    labels = [
        {"subject_id": s, "study_id": t, "Edema": "1.0", "Pneumonia": "-1.0", "No Finding": ""}
        for s, t in (("10000032", "50414267"), ("10000764", "57375967"), ("9", "9"))
    ]
    save_table(root / "mimic-cxr-2.0.0-chexpert.csv", labels)
    return root


def nih(root: Path) -> Path:
    header = (
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,"
        "View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],\n"
    )
    rows = [
        "00000001_000.png,Cardiomegaly|Effusion,0,1,058Y,M,PA,2682,2749,0.143,0.143,",
        "00000001_001.png,No Finding,1,1,058Y,M,AP,2682,2749,0.143,0.143",
        "00000002_000.png,Pleural_Thickening,0,2,81,F,PA,2500,2048,0.171,0.171,",
        "00000003_000.png,Broken Heart,0,3,81,F,PA,2500,2048,0.171,0.171,",
        "00000004_000.png,No Finding,0,4",
    ]
    root.mkdir()
    (root / "Data_Entry_2017.csv").write_text(header + "\n".join(rows) + "\n")
    (root / "BBox_List_2017.csv").write_text(
        "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"
        "00000001_000.png,Effusion,225.08,547.01,86.7,79.1,,,\n"
        "00000009_000.png,Infiltrate,225.08,547.01,86.7,79.1,,,\n"
    )
    for number, name in enumerate(("00000001_000", "00000001_001", "00000002_000")):
        save_picture(root / f"images_00{number % 2 + 1}/images/{name}.png", number)
    return root
