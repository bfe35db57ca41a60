"""Drawn radiographs as small gray images, with what the drawing knows of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cxrtext.errors import DataError
from cxrtext.experiments.data.images import ImageSet, SplitImages
from cxrtext.experiments.experiment import ExperimentListener
from cxrtext.phantom.scanners import site
from cxrtext.phantom.state import State
from cxrtext.phantom.studies import PhantomStudy, draw_studies
from cxrtext.phantom.write import write_phantoms

if TYPE_CHECKING:
    from cxrtext.training.objectives.shared.metadata import Kind

DRAWN = 64
"""Pixels along a side, as they are drawn."""
SEED = 0
KINDS = ("no finding", "Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")
SEVERAL = "several findings"
Pixels = NDArray[np.uint8]


def draw_images(out: Path, studies: int, listener: ExperimentListener) -> dict[str, int]:
    heard = listener.counting("phantoms", "images")
    summary = write_phantoms(out, studies=studies, size=DRAWN, seed=SEED, progress=heard)
    return {"studies": summary.studies, "patients": summary.patients}


def read_images(folder: Path, studies: Sequence[PhantomStudy], side: int) -> Pixels:
    """The images of some studies, [n, 1, side, side]; a side of 32 takes means of four pixels."""
    pixels = np.empty((len(studies), 1, side, side), dtype=np.uint8)
    for row, study in enumerate(studies):
        path = folder / "images" / f"{study.study_id}.png"
        try:
            with Image.open(path) as image:
                gray = image.convert("L").resize((side, side), Image.Resampling.BOX)
                pixels[row, 0] = np.asarray(gray)
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(
                f"{path}: not readable ({type(error).__name__}); remove the folder, and the "
                "command draws it again"
            ) from None
    return pixels


def finding_kind(state: State) -> int:
    there = [name for name, present in state.labels().items() if present]
    return len(KINDS) if len(there) > 1 else KINDS.index(there[0]) if there else 0


def attributes(state: State) -> dict[str, int]:
    """Findings, places and severities as yes or no; the names are the same for every state."""
    places, sides = set(state.places()), ("right", "left")
    found = {name.lower(): present for name, present in state.labels().items()}
    for name in ("Pleural Effusion", "Pneumothorax"):
        found |= {f"{name.lower()}, {side}": int((name, side) in places) for side in sides}
    lobes = [part for name, part in places if name == "Pneumonia"]
    for word in ("right", "left", "upper", "middle", "lower", "lingula"):
        found[f"pneumonia, {word}"] = int(any(word in lobe for lobe in lobes))
    for lean in sides:
        found[f"edema, worse {lean}"] = int(state.edema[1] == lean)
    for name, grade in {
        "cardiomegaly": state.cardiomegaly,
        "edema": state.edema[0],
        "pleural effusion": max(state.effusion),
        "pneumonia": state.pneumonia[0],
        "pneumothorax": state.pneumothorax[0],
    }.items():
        for least, word in ((2, "at least moderate"), (3, "severe")):
            found[f"{name}, {word}"] = int(grade >= least)
    found["no finding"] = int(not places)
    return found


def _metadata(
    kind: str, studies: Sequence[PhantomStudy]
) -> "tuple[NDArray[np.float32], tuple[Kind, ...], tuple[str, ...]]":
    number: Kind = "number"
    category: Kind = "category"
    if kind == "age-sex":
        ages = np.array([study.age for study in studies], dtype=np.float64)
        ages = (ages - ages.mean()) / ages.std()
        sexes = np.array([study.patient.sex == "F" for study in studies], dtype=np.float64)
        values = np.stack([ages, sexes], axis=1).astype(np.float32)
        return values, (number, category), ("age", "sex")
    if kind == "site":
        sites = [[site(study.patient.patient_key)] for study in studies]
        return np.array(sites, dtype=np.float32), (category,), ("site",)
    rows = [attributes(study.patient.state) for study in studies]
    columns = tuple(rows[0])
    marks = np.array([list(row.values()) for row in rows], dtype=np.float32)
    # Left as 0 and 1: standardized, the rarest would count for most.
    return marks, (number,) * len(columns), columns


def _part(folder: Path, studies: Sequence[PhantomStudy], side: int) -> SplitImages:
    states = [study.patient.state for study in studies]
    return SplitImages(
        read_images(folder, studies, side),
        np.array([int(study.patient_id[1:]) for study in studies], dtype=np.int64),
        {
            "findings": np.array([list(s.labels().values()) for s in states], dtype=np.int64),
            "site": np.array([site(study.patient.patient_key) for study in studies], np.int64),
            "kind": np.array([finding_kind(state) for state in states], dtype=np.int64),
        },
    )


def phantom_set(folder: Path, studies: int, side: int, kind: str) -> ImageSet:
    """Drawn studies, val and test held out; ``kind`` is "age-sex", "site" or "attributes"."""
    drawn = draw_studies(studies, SEED)
    train = [study for study in drawn if study.split == "train"]
    test = [study for study in drawn if study.split != "train"]
    values, kinds, columns = _metadata(kind, train)
    part = _part(folder, train, side)
    return ImageSet(
        train=part,
        test=_part(folder, test, side),
        labels=part.targets["kind"].astype(np.int64),
        metadata=values,
        kinds=kinds,
        columns=columns,
        names=(*KINDS, SEVERAL),
    )
