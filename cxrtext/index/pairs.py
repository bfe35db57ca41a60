"""The head that compares two films, trained on an index's pairs of studies in time."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.evaluation import prompt_embeddings
from cxrtext.evaluation.changes import KINDS, ChangesSaid, fit_changes, said_changes
from cxrtext.evaluation.classification.calibration import prompts_beside
from cxrtext.index.order import StudyPair, study_pairs
from cxrtext.index.search.index import Index
from cxrtext.index.store.vectors import rows_of
from cxrtext.models.changes import finding_vectors, save_changes
from cxrtext.models.regions import unpack

FEWEST = 20
"""Findings of pairs that reports must say of each kind, for a head to be trained."""


@dataclass(frozen=True, slots=True)
class LearnedChanges:
    path: Path
    pairs: int  # that follow each other
    unordered: int  # patients whose studies are in no order
    said: Mapping[str, int]  # what their reports say became of findings, by kind


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


def learn_changes(index: Index, split: str = "train") -> LearnedChanges:
    """Train a head on an index's pairs of a split, and keep it in the model's checkpoint.

    A DataError says where reports say too little, or the model lies nowhere.
    """
    model = index.model
    if model.folder is None:
        raise DataError(f"{index.folder}: its model has no checkpoint to keep a head in")
    prompts = prompts_beside(model)
    every, unordered = study_pairs([index])
    pairs = [pair for pair in every if pair.present.split == split]
    said, _ = said_of(index, pairs, list(prompts))
    counts = Counter(KINDS[kind] for kind in said.kind.tolist())
    if lacking := [kind for kind in KINDS if counts[kind] < FEWEST]:
        raise DataError(
            f"{index.folder}: of {len(pairs)} pairs of split '{split}' reports say of "
            f"{counts[lacking[0]]} finding(s) that they are {lacking[0]}, and {FEWEST} are wanted; "
            f"index more reports, or name another split; {unordered} patient(s) with several "
            "studies are left out: nothing tells their order"
        )
    vectors = finding_vectors(prompt_embeddings(model, prompts))
    head = fit_changes(model, said, regions_of(index), vectors.clone())
    path = save_changes(model.folder, head, model)
    return LearnedChanges(path, len(pairs), unordered, {kind: counts[kind] for kind in KINDS})


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
