"""The tables of an embedded data set."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.phantom.claims import rho
from cxrtext.phantom.labels import labels_from_state, labels_from_statements
from cxrtext.phantom.render import PlacedBox
from cxrtext.phantom.studies import PhantomStudy
from cxrtext.records import CHEX5, Box, write_boxes, write_table
from cxrtext.records.labels import CHEXPERT

TABLES = (
    "manifest.csv",
    "reports.csv",
    "labels.csv",
    "labels_from_reports.csv",
    "boxes.json",
    "truth.csv",
)
"""What is written beside the images."""

TRUTH_COLUMNS = ("study_id", "section", "position", "sentence", "class", "rho")


@dataclass(frozen=True, slots=True)
class PhantomSummary:
    """What a set holds."""

    studies: int  # studies, which is images
    patients: int
    splits: dict[str, int]  # studies by split
    findings: dict[str, int]  # studies with each CheX5 finding
    normal: int  # studies with none of them
    boxes: int
    sentences: int  # sentences of FINDINGS and IMPRESSION
    classes: int  # different classes among them


def truth_rows(studies: Sequence[PhantomStudy]) -> Iterator[dict[str, Any]]:
    """One row a sentence: where it stands, its class, and the class's true probability."""
    for study in studies:
        for section, statements in study.report.sections():
            for position, statement in enumerate(statements):
                yield {
                    "study_id": study.study_id,
                    "section": section,
                    "position": position,
                    "sentence": statement.text,
                    "class": statement.claim.name,
                    "rho": repr(rho(statement.claim)),
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
    texts = {
        section: " ".join(statement.text for statement in statements)
        for section, statements in study.report.sections()
    }
    return {
        "study_id": study.study_id,
        "indication": study.report.indication,
        "comparison": study.report.comparison,
        **texts,
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
        said.append(ids | labels_from_statements(statements))
    columns = ["study_id", "patient_id", *names]
    write_table(out / "labels.csv", columns, shown)
    write_table(out / "labels_from_reports.csv", columns, said)


def write_tables(
    out: Path,
    studies: Sequence[PhantomStudy],
    names: Sequence[str],
    placed: Mapping[str, Sequence[PlacedBox]],
    size: int,
) -> PhantomSummary:
    """Write everything but the images."""
    manifest = [_manifest_row(s, name) for s, name in zip(studies, names, strict=True)]
    write_table(out / "manifest.csv", list(manifest[0]), manifest)
    reports = [_report_row(study) for study in studies]
    write_table(out / "reports.csv", list(reports[0]), reports)
    labels = [study.patient.state.labels() for study in studies]
    _write_labels(out, studies)
    boxes = list(_boxes(studies, names, placed, size))
    write_boxes(out / "boxes.json", boxes)
    truth = list(truth_rows(studies))
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
