"""Patients and their studies, drawn once for a whole set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cxrtext.phantom.render import Patient
from cxrtext.phantom.reports import Report, write_report
from cxrtext.phantom.state import AXES, GRADES, LOBES, SIDES, State

KEEP = 0.35  # probability that a patient's later study repeats the findings of the previous one
STUDY_COUNT = (0.50, 0.25, 0.15, 0.10)  # probabilities of 1, 2, 3 and 4 studies a patient
GRADE_SHARE = (0.46, 0.34, 0.20)  # how often a finding is mild, moderate and severe


@dataclass(frozen=True, slots=True)
class PhantomStudy:
    number: int  # its place in the set, from 0
    study_id: str
    patient_id: str
    split: str  # "train", "val" or "test"
    age: int  # in years
    sex: str  # "F" or "M"
    days: int  # since the patient's first study
    follow_up: int  # its place among the patient's studies, from 0
    patient: Patient  # state, view and seeds
    report: Report


def draw_state(generator: np.random.Generator) -> State:
    """Draw what a study shows: fluid goes with edema, and edema with a large heart."""

    def one(values: Sequence[Any], weights: Sequence[float] = GRADE_SHARE) -> Any:
        steps = np.cumsum(weights)
        return values[int(np.searchsorted(steps, generator.random() * steps[-1], side="right"))]

    def grade(prevalence: float) -> int:
        return one(GRADES) if generator.random() < prevalence else 0

    heart = grade(0.22)
    edema = grade((0.12, 0.28, 0.42, 0.58)[heart])
    fluid = grade(min(0.155 + 0.05 * heart + 0.12 * edema, 0.62))
    other = max(1, fluid - grade(0.3)) if fluid and grade(0.45 if edema else 0.16) else 0
    right, left = (fluid, other) if generator.random() < 0.56 else (other, fluid)
    opacity, lobe = grade(0.21), one(LOBES, [1.0 / (rank + 1.4) for rank in range(len(LOBES))])
    air, side = grade(0.16), one(SIDES, (0.55, 0.45))
    tube = grade((0.025, 0.05, 0.10, 0.17)[edema])
    entry = one(AXES["line"].values[1:], (0.4, 0.15, 0.3, 0.15))
    return State(
        cardiomegaly=heart,
        edema=edema,
        effusion_right=right,
        effusion_left=left,
        pneumonia=(opacity, lobe) if opacity else (0, ""),
        pneumothorax=(air, side) if air else (0, ""),
        tube=("", "good", "good", "low")[tube],
        line=entry if grade(0.70 if tube else 0.06) else "",
    )


def draw_patient(seed: int, number: int, first: int) -> list[PhantomStudy]:
    """All studies of a patient; ``first`` is the number of the first one in the set."""
    generator = np.random.default_rng([seed, 1, number])
    count = 1 + int(generator.choice(len(STUDY_COUNT), p=STUDY_COUNT))
    age = int(generator.integers(18, 92, endpoint=True))
    sex = "F" if generator.random() < 0.47 else "M"
    person = f"{age}-year-old {'woman' if sex == 'F' else 'man'}"
    days, before = 0, None
    studies: list[PhantomStudy] = []
    for index in range(first, first + count):
        state = draw_state(generator)
        state = before if before and generator.random() < KEEP else state
        words = np.random.default_rng([seed, 2, index])
        # Sicker patients are more often imaged lying or sitting, from the front.
        burden = state.cardiomegaly + 2 * state.edema + state.effusion_right + state.effusion_left
        front = state.tube or generator.random() < 0.25 + 0.06 * min(burden, 9)
        view = "AP" if front else "PA"
        studies.append(
            PhantomStudy(
                number=index,
                study_id=f"s{index + 1:06d}",
                patient_id=f"p{number + 1:06d}",
                split="train",
                age=age,
                sex=sex,
                days=days,
                follow_up=len(studies),
                patient=Patient(state, view, (seed, 3, number), (seed, 4, index)),
                report=write_report(words, state, person=person, before=before),
            )
        )
        days, before = days + int(generator.integers(1, 120)), state
    return studies


def draw_studies(count: int, seed: int) -> list[PhantomStudy]:
    """Draw the studies of a set, patient by patient.

    Splits depend on the count; everything else depends only on the seed and the study's number.
    """
    patients: list[list[PhantomStudy]] = []
    total = 0
    while total < count:
        patients.append(draw_patient(seed, len(patients), total))
        total += len(patients[-1])
    tenth = max(1, round(0.1 * len(patients))) if len(patients) >= 3 else 0
    names = ["val"] * tenth + ["test"] * tenth + ["train"] * (len(patients) - 2 * tenth)
    order = np.random.default_rng([seed, 5]).permutation(len(patients))
    splits = [names[place] for place in order]
    return [
        replace(study, split=split)
        for split, several in zip(splits, patients, strict=True)
        for study in several
    ][:count]
