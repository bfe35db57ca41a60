"""What is known of an archive before anything is made of it, and of its data folder afterwards."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cxrtext.datasets.importing.joining import image_size
from cxrtext.evaluation.data import find_table, manifest_of, reports_of
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.rows import TableRows
from cxrtext.records.tables import stream_table

SAMPLE = 24
"""Images whose size is looked at, and that reading is timed on."""


@dataclass(frozen=True, slots=True)
class Facts:
    """An archive in numbers; of one that is not imported yet they are estimates."""

    images: int
    studies: int
    training: int  # studies of the split "train"
    has_reports: bool
    has_labels: bool
    letters: int  # of all reports
    bytes: int  # of all image files
    side: int  # median shorter side of an image, in pixels; 0 where none could be read
    sample: tuple[Path, ...]

    @property
    def held_out(self) -> float:
        """Share of the studies that are not trained on."""
        return 1 - self.training / max(1, self.studies)


def facts_of_data(folder: Path) -> Facts:
    """The facts of a data folder."""
    manifest = manifest_of(folder)
    studies: dict[str, str] = {}
    paths = []
    for row in stream_table(manifest):
        studies[row["study_id"]] = row.get("split", "")
        paths.append(folder / row["image"])
    texts = reports_of(manifest)
    return _facts(
        paths,
        len(paths),
        len(studies),
        sum(split == "train" for split in studies.values()),
        has_labels=find_table(folder, "labels") is not None,
        letters=_letters(texts) if texts else 0,
    )


def facts_of_archive(
    images: Sequence[Path], count: int, letters: int, *, has_labels: bool
) -> Facts:
    """Estimates for an archive of so many images, some of which are named."""
    return _facts(images, count, count, round(0.8 * count), has_labels=has_labels, letters=letters)


def _facts(
    paths: Sequence[Path], images: int, studies: int, training: int, *, has_labels: bool,
    letters: int,
) -> Facts:  # fmt: skip
    step = max(1, len(paths) // SAMPLE)
    sample = tuple(path for path in islice(paths, 0, None, step) if path.is_file())[:SAMPLE]
    sides = [min(size) for size in map(image_size, sample) if min(size)]
    sizes = [path.stat().st_size for path in sample]
    return Facts(
        images=images,
        studies=studies,
        training=training,
        has_reports=letters > 0,
        has_labels=has_labels,
        letters=letters,
        bytes=round(statistics.fmean(sizes) * images) if sizes else 0,
        side=round(statistics.median(sides)) if sides else 0,
        sample=sample,
    )


def _letters(table: Path) -> int:
    """Letters of the report, or of its sections."""
    texts = [name for name in TableRows(table).columns if name in ("report", *SECTION_COLUMNS)]
    return sum(len(row[name]) for row in stream_table(table) for name in texts)
