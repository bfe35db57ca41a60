from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from cxrtext.phantom import Patient
from cxrtext.phantom.sentences.present import Statement
from cxrtext.phantom.state import State
from cxrtext.phantom.studies import PhantomStudy, draw_studies

COUNT = 4000
Mask = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


@pytest.fixture(scope="session")
def studies() -> list[PhantomStudy]:
    """A population large enough for frequencies; read-only by convention."""
    return draw_studies(COUNT, seed=23)


def told(studies: Sequence[PhantomStudy]) -> Iterator[tuple[PhantomStudy, Statement]]:
    """Every statement of the reports, with its study."""
    for study in studies:
        for _, statements in study.report.sections():
            for statement in statements:
                yield study, statement


def statements(study: PhantomStudy) -> list[Statement]:
    return [statement for _, statement in told([study])]


def patient(state: State, number: int = 0, difficulty: float = 1.0) -> Patient:
    """One of several patients, men from behind and women from the front by turns."""
    view = "AP" if number % 2 else "PA"
    return Patient(state, "MF"[number % 2], view, (0, 1, number), (0, 2, number), difficulty)


def inside(boxes: Sequence[tuple[float, float, float, float]], size: int) -> Mask:
    """The pixels that lie in one of the boxes."""
    mask = np.zeros((size, size), bool)
    for box in boxes:
        x, y, w, h = (int(value) for value in box)
        mask[y : y + h, x : x + w] = True
    return mask
