"""Which sentences are true of which studies of a drawn set: what no real reports can tell."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.phantom.claims import UNCHANGED, Claim
from cxrtext.phantom.state import State
from cxrtext.phantom.studies import draw_studies
from cxrtext.phantom.write import PARAMETERS, VERSION
from cxrtext.records.tables import read_table

TRUTH_TABLE = "truth.csv"


@dataclass(frozen=True, slots=True)
class KnownTruth:
    """What is known of a drawn set.

    The claim of each distinct sentence, the state of each study, and the sentences of its report.
    """

    claims: dict[str, Claim]
    states: dict[str, State]
    reports: dict[str, list[str]]

    def sentences_of(self, studies: Sequence[str]) -> list[str]:
        """The distinct sentences of some studies' reports."""
        self._require(studies)
        return list(dict.fromkeys(text for study in studies for text in self.reports[study]))

    def holds(self, claims: Sequence[Claim], studies: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each claim is true of each study, [claims, studies]."""
        self._require(studies)
        states = [self.states[study] for study in studies]
        found = [[claim.holds(state) for state in states] for claim in claims]
        return np.asarray(found, dtype=np.bool_).reshape(len(claims), len(studies))

    def _require(self, studies: Iterable[str]) -> None:
        for study in studies:
            if study not in self.states:
                raise DataError(
                    f"study '{study}' of the manifest was not drawn with the others; give the "
                    "folder as 'cxrtext phantom' wrote it"
                )


def read_truth(folder: Path) -> KnownTruth | None:
    """Draw the studies of a set again, without images; None where ``phantom`` did not write it.

    Left out are sentences that compare with an earlier study, which no image tells, and those that
    the set means differently in different reports.
    """
    note, path = folder / PARAMETERS, folder / TRUTH_TABLE
    if not note.is_file() or not path.is_file():
        return None
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        version, count, seed = (int(noted[key]) for key in ("version", "studies", "seed"))
        language = str(noted.get("language", "en"))
        follow_ups = bool(noted.get("follow_ups", False))
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{note}: not readable; draw the set again with 'cxrtext phantom'"
        ) from None
    if version != VERSION:
        raise DataError(
            f"{note}: drawn by version {version} of the phantoms, and this is {VERSION}; draw the "
            "set again with 'cxrtext phantom'"
        )
    studies = draw_studies(count, seed, language, follow_ups=follow_ups)
    meant: dict[str, set[Claim]] = defaultdict(set)
    for study in studies:
        for _, statements in study.report.sections():
            for statement in statements:
                meant[statement.text].add(statement.claim)
    for number, row in enumerate(read_table(path, required=["sentence", "class"]).rows, 1):
        if row["class"] not in {claim.name for claim in meant.get(row["sentence"], ())}:
            raise DataError(
                f"{path}: row {number}: no sentence of the set that {note.name} describes; give "
                "the folder as 'cxrtext phantom' wrote it"
            )
    return KnownTruth(
        {
            text: next(iter(some))
            for text, some in meant.items()
            if len(some) == 1 and UNCHANGED not in some
        },
        {study.study_id: study.patient.state for study in studies},
        {
            study.study_id: [one.text for _, some in study.report.sections() for one in some]
            for study in studies
        },
    )
