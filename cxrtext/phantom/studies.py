"""Patients and their studies, drawn once for a whole set."""

from dataclasses import dataclass, replace

import numpy as np

from cxrtext.phantom.population import (
    CHANGING,
    FOLLOWED_COUNT,
    GROUP_SHARE,
    GROUPS,
    KEEP,
    STUDY_COUNT,
    draw_findings,
    draw_frame,
    follow_up,
)
from cxrtext.phantom.render import Patient
from cxrtext.phantom.reports import Report, write_report
from cxrtext.phantom.state import VALUES, State


@dataclass(frozen=True, slots=True)
class PhantomStudy:
    number: int  # its place in the set, from 0
    study_id: str
    patient_id: str
    split: str  # "train", "val" or "test"
    age: int  # in years
    patient: Patient  # who is drawn: state, sex, view and seeds
    follow_up: int  # its place among the patient's studies, from 0
    unchanged: bool  # whether the study before showed the same, the lung volume apart
    report: Report  # what is written about it


def _splits(generator: np.random.Generator, patients: int) -> list[str]:
    """Eight tenths, a tenth and a tenth of the patients; from three patients on none is empty."""
    tenth = max(1, round(0.1 * patients)) if patients >= 3 else 0
    names = ["val"] * tenth + ["test"] * tenth + ["train"] * (patients - 2 * tenth)
    return [names[index] for index in generator.permutation(patients)]


def _view(generator: np.random.Generator, state: State) -> str:
    """Sicker people are more often imaged lying or sitting, from the front."""
    burden = state.cardiomegaly + 2 * state.edema[0] + sum(state.effusion) + state.pneumonia[0]
    if state.tube:
        return "AP"
    return "AP" if generator.random() < 0.25 + 0.06 * min(burden, 9) else "PA"


def _patient(
    seed: int, number: int, first: int, language: str, follow_ups: bool
) -> list[PhantomStudy]:
    generator = np.random.default_rng([seed, 1, number])
    counts = FOLLOWED_COUNT if follow_ups else STUDY_COUNT
    count = 1 + int(generator.choice(len(counts), p=counts))
    group = int(generator.choice(len(GROUPS), p=GROUP_SHARE))
    age = int(generator.integers(GROUPS[group][0], GROUPS[group][1], endpoint=True))
    sex = "F" if generator.random() < 0.47 else "M"
    frame = draw_frame(generator, group)
    emphysema = VALUES["emphysema"].index(frame["emphysema"])
    studies: list[PhantomStudy] = []
    for index in range(first, first + count):
        before = studies[-1].patient.state if studies else None
        state = draw_findings(generator, group, emphysema)
        if before and follow_ups:
            state = follow_up(generator, before, state)
        elif before and generator.random() < KEEP:
            state = replace(before, volume=state.volume)
        state = replace(state, **frame)
        unchanged = before is not None and all(
            getattr(before, axis) == getattr(state, axis) for axis in CHANGING
        )
        view = _view(generator, state)
        studies.append(
            PhantomStudy(
                number=index,
                study_id=f"s{index + 1:06d}",
                patient_id=f"p{number + 1:06d}",
                split="train",
                age=age,
                patient=Patient(state, sex, view, (seed, 3, number), (seed, 4, index)),
                follow_up=len(studies),
                unchanged=unchanged,
                report=write_report(
                    np.random.default_rng([seed, 2, index]),
                    state,
                    age=age,
                    sex=sex,
                    before=before,
                    same=unchanged,
                    language=language,
                ),
            )
        )
    return studies


def draw_studies(
    count: int, seed: int, language: str = "en", *, follow_ups: bool = False
) -> list[PhantomStudy]:
    """Draw the studies of a set, patient by patient.

    Splits depend on the count, everything else of a study only on the seed and its number.  In a
    set of follow-ups every patient has two or more, in which findings grow, shrink and resolve.
    """
    patients: list[list[PhantomStudy]] = []
    total = 0
    while total < count:
        patients.append(_patient(seed, len(patients), total, language, follow_ups))
        total += len(patients[-1])
    splits = _splits(np.random.default_rng([seed, 5]), len(patients))
    return [
        replace(study, split=split)
        for split, several in zip(splits, patients, strict=True)
        for study in several
    ][:count]
