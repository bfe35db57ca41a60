"""The tables of a drawn data set, beside its images.

Labels follow CheXpert: 1 or 0 for what a study shows; labels from its report can also be blank, and
-1 if every affirmation is hedged.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.phantom.claims import shares
from cxrtext.phantom.reports import Statement
from cxrtext.phantom.state import LABELS
from cxrtext.phantom.studies import PhantomStudy
from cxrtext.records import CHEX5, Box, write_boxes, write_table

TABLES = (
    *("manifest.csv", "reports.csv", "labels.csv", "labels_from_reports.csv"),
    *("boxes.json", "truth.csv"),
)
"""The files beside the images."""

TRUTH_COLUMNS = ("study_id", "section", "position", "sentence", "class", "rho")

_HEDGE = re.compile(
    r"\b(may|could|possibl[ey]|concerning|suspicious|suspected|cannot be excluded)\b"
)


def labels_from_statements(statements: Iterable[Statement]) -> dict[str, int | None]:
    """The labels of what a report says; None if it says nothing.

    No Finding is 1 if no label except Support Devices is 1 or -1, and otherwise blank.
    """
    labels: dict[str, int | None] = dict.fromkeys(LABELS)
    for statement in statements:
        for label, axes in LABELS.items():
            allowed = [indices for axis, indices in statement.claim.allowed if axis in axes]
            if statement.shows and any(0 not in indices for indices in allowed):
                hedged = _HEDGE.search(statement.text) and labels[label] != 1
                labels[label] = -1 if hedged else 1
            elif len(allowed) == len(axes) and all(indices == {0} for indices in allowed):
                labels[label] = labels[label] or 0
    abnormal = any(value for label, value in labels.items() if label != "Support Devices")
    return {"No Finding": None if abnormal else 1, **labels}


@dataclass(frozen=True, slots=True)
class PhantomSummary:
    studies: int  # also the number of images
    patients: int
    splits: dict[str, int]  # studies by split
    findings: dict[str, int]  # studies with each CheX5 finding
    classes: int  # different classes of their sentences


def truth_rows(studies: Sequence[PhantomStudy]) -> Iterator[dict[str, Any]]:
    """One row for each sentence: its place, class, and the class's probability in the set."""
    sentences = [
        (study.study_id, section, position, statement.text, statement.claim)
        for study in studies
        for section, statements in study.report.sections()
        for position, statement in enumerate(statements)
    ]
    claims = list(dict.fromkeys(row[-1] for row in sentences))
    probabilities = shares(claims, [study.patient.state for study in studies]).tolist()
    rho = dict(zip(claims, map(repr, probabilities), strict=True))
    for *place, claim in sentences:
        yield dict(zip(TRUTH_COLUMNS, (*place, claim.name, rho[claim]), strict=True))


def write_tables(
    out: Path,
    studies: Sequence[PhantomStudy],
    names: Sequence[str],
    placed: Mapping[str, Any],
    size: int,
) -> PhantomSummary:
    """Write everything but the images; ``placed`` has the boxes by the images' ``names``."""
    manifest = [
        {
            "image": name,
            "study_id": study.study_id,
            "patient_id": study.patient_id,
            "split": study.split,
            "view": study.patient.view,
            "sex": study.sex,
            "age": study.age,
            "days_since_first": study.days,
            "follow_up": study.follow_up,
        }
        for study, name in zip(studies, names, strict=True)
    ]
    write_table(out / "manifest.csv", list(manifest[0]), manifest)
    reports = [
        {
            "study_id": study.study_id,
            "indication": study.report.indication,
            "comparison": study.report.comparison,
            **{name: " ".join(s.text for s in said) for name, said in study.report.sections()},
        }
        for study in studies
    ]
    write_table(out / "reports.csv", list(reports[0]), reports)
    ids = [{"study_id": study.study_id, "patient_id": study.patient_id} for study in studies]
    shown = [study.patient.state.labels() for study in studies]
    said = [labels_from_statements([*s.report.findings, *s.report.impression]) for s in studies]
    tables: dict[str, Sequence[Mapping[str, Any]]] = {"labels": shown, "labels_from_reports": said}
    for name, labels in tables.items():
        rows = [{**row, **own} for row, own in zip(ids, labels, strict=True)]
        write_table(out / f"{name}.csv", list(rows[0]), rows)
    boxes = [
        Box(name, size, size, finding, sentence, (x, y, w, h))
        for study, name in zip(studies, names, strict=True)
        for finding, part, (x, y, w, h) in placed[name]
        if (sentence := study.report.evidence(finding, part))
    ]
    write_boxes(out / "boxes.json", boxes)
    truth = list(truth_rows(studies))
    write_table(out / "truth.csv", TRUTH_COLUMNS, truth)
    return PhantomSummary(
        studies=len(studies),
        patients=len({study.patient_id for study in studies}),
        splits=dict(Counter(study.split for study in studies)),
        findings={name: sum(row[name] for row in shown) for name in CHEX5},
        classes=len({row["class"] for row in truth}),
    )
