"""Which sentences are true of which studies in a drawn set; no real reports can tell that."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.phantom.claims import UNCHANGED, Claim, holding, shares
from cxrtext.phantom.state import State
from cxrtext.phantom.studies import PhantomStudy, draw_studies
from cxrtext.phantom.tables import truth_rows
from cxrtext.phantom.write import PARAMETERS, VERSION
from cxrtext.records.tables import read_table


@dataclass(frozen=True, slots=True)
class KnownTruth:
    """What is known about a drawn set.

    It has the claim of each distinct sentence, the state of each study, and the sentences of each
    study's report.
    """

    claims: dict[str, Claim]
    states: dict[str, State]
    reports: dict[str, list[str]]

    def sentences_of(self, studies: Sequence[str]) -> list[str]:
        """The distinct sentences of these studies' reports."""
        self._states(studies)
        return list(dict.fromkeys(text for study in studies for text in self.reports[study]))

    def holds(self, claims: Sequence[Claim], studies: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each claim is true of each study, [claims, studies]."""
        return holding(claims, self._states(studies))

    def rho(self, claims: Sequence[Claim]) -> NDArray[np.float64]:
        """The probability that each claim is true of a study of the set, [claims]."""
        return shares(claims, list(self.states.values()))

    def _states(self, studies: Sequence[str]) -> list[State]:
        for study in studies:
            if study not in self.states:
                raise DataError(f"study '{study}' of the manifest was not drawn with the others")
        return [self.states[study] for study in studies]


def known_truth(studies: Sequence[PhantomStudy]) -> KnownTruth:
    """What is known about drawn studies.

    It leaves out sentences that compare with an earlier study, which no image shows, and sentences
    that mean different things in different reports.
    """
    meant: dict[str, set[Claim]] = defaultdict(set)
    reports: dict[str, list[str]] = defaultdict(list)
    for study in studies:
        for statement in (*study.report.findings, *study.report.impression):
            meant[statement.text].add(statement.claim)
            reports[study.study_id].append(statement.text)
    return KnownTruth(
        {t: claim for t, (claim, *more) in meant.items() if not more and claim != UNCHANGED},
        {study.study_id: study.patient.state for study in studies},
        reports,
    )


def read_truth(folder: Path) -> KnownTruth | None:
    """Draw the studies of a set again, without images; None if ``phantom`` did not write it."""
    note, path = folder / PARAMETERS, folder / "truth.csv"
    if not note.is_file() or not path.is_file():
        return None
    again = "draw the set again with 'cxrtext phantom'"
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        version, count, seed = (int(noted[key]) for key in ("version", "studies", "seed"))
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{note}: not readable; {again}") from None
    if version != VERSION:
        raise DataError(
            f"{note}: drawn by version {version} of the phantoms, and this is {VERSION}; {again}"
        )
    studies = draw_studies(count, seed)
    written = {(row["sentence"], row["class"]) for row in truth_rows(studies)}
    for number, row in enumerate(read_table(path, required=["sentence", "class"]).rows, 1):
        if (row["sentence"], row["class"]) not in written:
            raise DataError(
                f"{path}: row {number}: no sentence of the set that {note.name} describes; {again}"
            )
    return known_truth(studies)
