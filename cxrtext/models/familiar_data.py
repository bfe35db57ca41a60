"""From the data that a model was trained on to what is familiar to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from cxrtext.images import Preprocessing
from cxrtext.models.familiar import (
    LOOK,
    MAX_IMAGES,
    Familiar,
    Rows,
    know_images,
    know_words,
    looks,
)
from cxrtext.models.reference import choose_reference
from cxrtext.models.regions import Square
from cxrtext.records import ImageRecord

LOOKED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Split:
    """Looks [n, 192] of the images of a split, and its sentences, each with the study's id."""

    looks: Rows
    said: Sequence[tuple[str, str]]


def choose_images(records: Sequence[ImageRecord]) -> list[int]:
    """Places of the images to describe: at most :data:`MAX_IMAGES`, one a patient first."""
    names, patients = [r.name for r in records], [r.patient_id for r in records]
    return choose_reference(names, patients, MAX_IMAGES)


def looks_of(squares: Iterable[Square], preprocessing: Preprocessing) -> Rows:
    """Looks of 8-bit squares [1, R, R] as they come, [n, 192]."""
    rest, parts = iter(squares), [np.empty((0, LOOK))]
    while some := list(islice(rest, LOOKED_AT_ONCE)):
        parts.append(looks(np.stack(some), preprocessing))
    return np.concatenate(parts)


def describe_data(train: Split, validation: Split) -> Familiar:
    """What is familiar to a model that was trained on one split and validated on the other."""
    return Familiar(
        know_images(train.looks, validation.looks),
        know_words(train.said or validation.said, (sentence for _, sentence in validation.said)),
    )
