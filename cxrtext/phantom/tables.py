"""The tables of an embedded data set.

Labels are in the manner of CheXpert.  What a study shows is known, so its labels are 1 or 0.  What
a report says follows the rules of CheXpert's labeler: a finding named as present is 1, named with a
hedge before it (or "cannot be excluded" behind it) is -1, named as absent is 0, and not named is
blank; over a report 1 goes before -1, and -1 before 0.

Source: Irvin et al. 2019, section 3 (the rules are much simplified).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cxrtext.phantom.claims import Claim, rho
from cxrtext.phantom.render import PlacedBox
from cxrtext.phantom.sentences.grammar import phrases_of
from cxrtext.phantom.sentences.present import Statement
from cxrtext.phantom.state import AXES, VALUES, State
from cxrtext.phantom.studies import PhantomStudy
from cxrtext.records import CHEX5, Box, write_boxes, write_table
from cxrtext.records.labels import CHEXPERT

MEANING: dict[str, dict[str, Callable[[Any], bool]]] = {
    label: {
        name: VALUES[name][0].__ne__
        for name, axis in AXES.items()
        if label == axis.finding or label in axis.labels
    }
    for label in CHEXPERT[1:]
}
"""Which values of which axes are the finding; phantoms have nothing under Pleural Other."""
MEANING["Enlarged Cardiomediastinum"]["aorta"] = "tortuous".__eq__


@cache
def _patterns(language: str) -> dict[str, re.Pattern[str]]:
    """How a language's reports name the finding of each label, and hedge."""
    return {
        name: re.compile("|".join(patterns), re.IGNORECASE)
        for name, patterns in phrases_of(language)["named"].items()
    }


def shown(label: str, claim: Claim) -> bool | None:
    """Whether a claim says that a label's finding is there; None where it leaves it open."""
    axes = MEANING[label]
    said = {axis: indices for axis, indices in claim.allowed if axis in axes}
    if claim.negated:
        return True if said and len(said) == len(claim.allowed) else None
    truths = [{axes[axis](VALUES[axis][index]) for index in said[axis]} for axis in said]
    return True if {True} in truths else False if {False} in truths else None


def said(statement: Statement, language: str = "en") -> dict[str, int]:
    """The labels that a sentence mentions: 1, 0 or -1."""
    if statement.parts:
        return joined(said(part, language) for part in statement.parts)
    labels: dict[str, int] = {}
    found = {name: it.search(statement.text) for name, it in _patterns(language).items()}
    hedge, behind = found.pop("hedge"), found.pop("hedge behind")
    for label, name in found.items():
        if not name:
            continue
        truth = shown(label, statement.claim)
        hedged = (hedge and name.start() > hedge.start()) or (
            behind and name.end() <= behind.start()
        )
        if hedged and truth is not False:
            labels[label] = -1
        elif truth is not None:
            labels[label] = int(truth)
    return labels


def joined(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The labels of several sentences: 1 before -1 before 0."""
    labels: dict[str, int] = {}
    for part in parts:
        for label, value in part.items():
            before = labels.get(label, 0)
            labels[label] = value if before == 0 or value == 1 else before
    return labels


def labels_from_state(state: State) -> dict[str, int]:
    """All fourteen labels of what a study shows; No Finding disregards devices."""
    labels = {
        label: int(any(true(getattr(state, axis)) for axis, true in axes.items()))
        for label, axes in MEANING.items()
    }
    found = any(value for label, value in labels.items() if label != "Support Devices")
    return {"No Finding": int(not found), **labels}


def labels_from_statements(
    statements: Iterable[Statement], language: str = "en"
) -> dict[str, int | None]:
    """All fourteen labels of what a report says; None where it says nothing.

    No Finding is 1 where no other label but Support Devices is 1 or -1, and else blank.
    """
    labels = joined(said(statement, language) for statement in statements)
    found = any(value for label, value in labels.items() if label != "Support Devices")
    return {"No Finding": None if found else 1, **{label: labels.get(label) for label in MEANING}}


TABLES = (
    *("manifest.csv", "reports.csv", "labels.csv", "labels_from_reports.csv"),
    *("boxes.json", "truth.csv"),
)
"""What is written beside the images."""

TRUTH_COLUMNS = ("study_id", "section", "position", "sentence", "class", "rho")


@dataclass(frozen=True, slots=True)
class PhantomSummary:
    studies: int  # studies, which is images
    patients: int
    splits: dict[str, int]  # studies by split
    findings: dict[str, int]  # studies with each CheX5 finding
    normal: int  # studies with none of them
    boxes: int
    sentences: int  # sentences of FINDINGS and IMPRESSION
    classes: int  # different classes among them


def truth_rows(
    studies: Sequence[PhantomStudy], *, follow_ups: bool = False
) -> Iterator[dict[str, Any]]:
    """One row a sentence: where it stands, its class, and the class's true probability.

    That of follow-ups is not known.
    """
    for study in studies:
        for section, statements in study.report.sections():
            for position, statement in enumerate(statements):
                yield {
                    "study_id": study.study_id,
                    "section": section,
                    "position": position,
                    "sentence": statement.text,
                    "class": statement.claim.name,
                    "rho": "" if follow_ups else repr(rho(statement.claim)),
                }


def _manifest_row(study: PhantomStudy, name: str) -> dict[str, Any]:
    return {
        "image": name,
        "study_id": study.study_id,
        "patient_id": study.patient_id,
        "split": study.split,
        "view": study.patient.view,
        "sex": study.patient.sex,
        "age": study.age,
    }


def _report_row(study: PhantomStudy) -> dict[str, Any]:
    return {
        "study_id": study.study_id,
        "indication": study.report.indication,
        "comparison": study.report.comparison,
        **{
            section: " ".join(statement.text for statement in statements)
            for section, statements in study.report.sections()
        },
    }


def _boxes(
    studies: Sequence[PhantomStudy],
    names: Sequence[str],
    placed: Mapping[str, Sequence[PlacedBox]],
    size: int,
) -> Iterator[Box]:
    for study, name in zip(studies, names, strict=True):
        for box in placed[study.study_id]:
            try:
                sentence = study.report.evidence(box.finding, box.part)
            except LookupError:
                if box.finding in CHEX5:
                    raise
                continue  # reports leave out some of the other findings; a box wants a phrase
            yield Box(name, size, size, box.finding, sentence, box.bbox)


def _write_labels(out: Path, studies: Sequence[PhantomStudy]) -> None:
    """What each study shows, 1 or 0, and in a second table what its report says of it."""
    names = (*CHEX5, *(name for name in CHEXPERT if name not in CHEX5))
    shown: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []
    for study in studies:
        ids = {"study_id": study.study_id, "patient_id": study.patient_id}
        statements = (*study.report.findings, *study.report.impression)
        shown.append(ids | labels_from_state(study.patient.state))
        said.append(ids | labels_from_statements(statements, study.report.language))
    columns = ["study_id", "patient_id", *names]
    write_table(out / "labels.csv", columns, shown)
    write_table(out / "labels_from_reports.csv", columns, said)


def write_tables(
    out: Path,
    studies: Sequence[PhantomStudy],
    names: Sequence[str],
    placed: Mapping[str, Sequence[PlacedBox]],
    size: int,
    *,
    follow_ups: bool = False,
) -> PhantomSummary:
    """Write everything but the images."""
    manifest = [_manifest_row(s, name) for s, name in zip(studies, names, strict=True)]
    if follow_ups:
        for row, study in zip(manifest, studies, strict=True):
            row["follow_up"] = study.follow_up
    write_table(out / "manifest.csv", list(manifest[0]), manifest)
    reports = [_report_row(study) for study in studies]
    write_table(out / "reports.csv", list(reports[0]), reports)
    labels = [study.patient.state.labels() for study in studies]
    _write_labels(out, studies)
    boxes = list(_boxes(studies, names, placed, size))
    write_boxes(out / "boxes.json", boxes)
    truth = list(truth_rows(studies, follow_ups=follow_ups))
    write_table(out / "truth.csv", TRUTH_COLUMNS, truth)
    return PhantomSummary(
        studies=len(studies),
        patients=len({study.patient_id for study in studies}),
        splits=dict(Counter(study.split for study in studies)),
        findings={name: sum(label[name] for label in labels) for name in CHEX5},
        normal=sum(not any(label.values()) for label in labels),
        boxes=len(boxes),
        sentences=len(truth),
        classes=len({row["class"] for row in truth}),
    )
