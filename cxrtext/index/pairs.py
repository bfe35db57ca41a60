"""A patient's studies in time: their pairs in an index, and the head that is trained on them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.evaluation import prompt_embeddings
from cxrtext.evaluation.changes import KINDS, ChangesSaid, fit_changes, said_changes
from cxrtext.evaluation.classification.calibration import prompts_beside
from cxrtext.index.search.index import Index
from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.index.store.vectors import rows_of
from cxrtext.models.changes import finding_vectors, save_changes
from cxrtext.models.regions import unpack

FEWEST = 20
"""Findings of pairs that reports must say of each kind, for a head to be trained."""


class StudyPair(NamedTuple):
    """Two studies of a patient, the second next after the first, by the first image of each."""

    prior: IndexedImage
    present: IndexedImage


@dataclass(frozen=True, slots=True)
class LearnedChanges:
    path: Path
    pairs: int  # that follow each other
    said: Mapping[str, int]  # what their reports say became of findings, by kind


def study_pairs(index: Index, order: str) -> list[StudyPair]:
    """The pairs of studies that follow each other in the order of a column (DataError).

    Its cells are compared as numbers where all are, else as text, as dates of ISO 8601 are.
    Studies with an empty cell, and such of a patient with equal ones, are left out: nobody knows
    their order.
    """
    first: dict[str, IndexedImage] = {}
    of_patient: dict[str, list[IndexedImage]] = defaultdict(list)
    for image in index.catalogue.images(np.sort(index.snapshot.numbers).tolist()):
        known = image is not None and image.metadata.get(order, "").strip()
        if image and known and first.setdefault(image.study_id, image) is image:
            of_patient[image.patient_id].append(image)
    if not first:
        raise DataError(
            f"{index.folder}: no image has a value in the column '{order}'; name one that orders a "
            "patient's studies"
        )
    when = _sortable({image.metadata[order].strip() for image in first.values()})
    pairs = []
    for images in of_patient.values():
        images.sort(key=lambda image: when[image.metadata[order].strip()])
        told = [list(same) for _, same in groupby(images, lambda one: one.metadata[order].strip())]
        pairs += [StudyPair(*a, *b) for a, b in pairwise(told) if len(a) == len(b) == 1]
    return pairs


def _sortable(cells: set[str]) -> Mapping[str, Any]:
    try:
        return {cell: float(cell) for cell in cells}
    except ValueError:
        return {cell: cell for cell in cells}


def said_of(
    index: Index, pairs: Sequence[StudyPair], findings: Sequence[str]
) -> tuple[ChangesSaid, list[int]]:
    """What reports say became of findings in pairs, films by number; and the row of the pair."""
    rows = [
        (number, pair.prior.number, pair.present.number, findings.index(name), KINDS.index(kind))
        for number, pair in enumerate(pairs)
        for name, kind in said_changes(
            text for _, text in index.catalogue.report(pair.present.study_id)
        ).items()
        if name in findings
    ]
    of, *columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return ChangesSaid(*columns), of.tolist()


def learn_changes(index: Index, order: str, split: str = "train") -> LearnedChanges:
    """Train a head on an index's pairs of a split, and keep it in the model's checkpoint.

    A DataError says where reports say too little, or the model lies nowhere.
    """
    model = index.model
    if model.folder is None:
        raise DataError(f"{index.folder}: its model has no checkpoint to keep a head in")
    prompts = prompts_beside(model)
    pairs = [pair for pair in study_pairs(index, order) if pair.present.split == split]
    said, _ = said_of(index, pairs, list(prompts))
    counts = Counter(KINDS[kind] for kind in said.kind.tolist())
    if lacking := [kind for kind in KINDS if counts[kind] < FEWEST]:
        raise DataError(
            f"{index.folder}: of {len(pairs)} pairs of split '{split}' reports say of "
            f"{counts[lacking[0]]} finding(s) that they are {lacking[0]}, and {FEWEST} are wanted; "
            "index more reports, or name another column or split"
        )
    vectors = finding_vectors(prompt_embeddings(model, prompts))
    head = fit_changes(model, said, regions_of(index), vectors.clone())
    path = save_changes(model.folder, head, model, order)
    return LearnedChanges(path, len(pairs), {kind: counts[kind] for kind in KINDS})


def regions_of(index: Index) -> Callable[[NDArray[np.int64]], Tensor]:
    """A function from numbers of images [b], each as often as it comes, to regions [b, N, D]."""
    snapshot = index.snapshot

    def read(numbers: NDArray[np.int64]) -> Tensor:
        places = snapshot.places_of(numbers)
        known = snapshot.numbers[places]
        order = np.argsort(known)
        rows = order[np.searchsorted(known[order], numbers)]
        return unpack(rows_of(snapshot.arrays["regions"], places))[rows]

    return read
