"""What an import did, counted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import did, counted.

    Args:
        layout: The layout that was read.
        images: Images kept.
        studies: Their studies.
        patients: Their patients.
        without_patient: Images whose patient is not named; their study stands for it.
        splits: Images by split.
        views: Images by view; "not said" where nothing says it.
        files: Images by how they came into the folder: linked, copied, left in place.
        set_aside: Files and rows left out, by reason.
        damaged: Those of them that should have been read but could not be.
        reports: Reports that belong to a kept study.
        reports_without_study: Reports that belong to none.
        studies_without_report: Studies that have none.
        labelled: Studies with labels.
        findings: Studies in which each finding is present.
        boxes: Boxes on kept images.
        boxes_without_image: Boxes on others.
        left_out: Columns of metadata that the set has and the manifest has not.
        hashed: Whether ids were replaced.
        rejected_path: The list of what was left out.
    """

    layout: str
    images: int
    studies: int
    patients: int
    without_patient: int
    splits: Mapping[str, int]
    views: Mapping[str, int]
    files: Mapping[str, int]
    set_aside: Mapping[str, int]
    damaged: int = 0
    reports: int | None = None
    reports_without_study: int = 0
    studies_without_report: int = 0
    labelled: int | None = None
    findings: Mapping[str, int] = field(default_factory=dict)
    boxes: int | None = None
    boxes_without_image: int = 0
    left_out: tuple[str, ...] = ()
    hashed: bool = False
    rejected_path: Path | None = None
