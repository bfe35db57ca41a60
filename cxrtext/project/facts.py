"""What is known about an archive before its import, and about its data folder afterwards."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cxrtext.datasets.importing.joining import image_size
from cxrtext.evaluation.data import find_table, manifest_of, reports_of
from cxrtext.project.outcome import NOTHING, HeldOut
from cxrtext.records import Study, read_labels, read_reports
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.rows import TableRows
from cxrtext.records.tables import stream_table
from cxrtext.text.labelling import FINDINGS, label_report
from cxrtext.text.studies import study_sentences

SAMPLE = 24
"""Images used to look up sizes and to time reading."""
READ = 1_000
"""Reports read for the findings of an archive."""
SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Shares of the studies if an archive says nothing about splits."""


@dataclass(frozen=True, slots=True)
class Facts:
    """An archive in numbers; before the import they are estimates."""

    images: int
    studies: int
    training: int  # studies of the split "train"
    has_reports: bool
    has_labels: bool
    letters: int  # of all reports
    bytes: int  # of all image files
    side: int  # median shorter side of an image, in pixels; 0 if none could be read
    sample: tuple[Path, ...]
    tested: HeldOut = NOTHING  # the split "test"

    @property
    def held_out(self) -> float:
        """Share of the studies not used for training."""
        return 1 - self.training / max(1, self.studies)


def facts_of_data(folder: Path) -> Facts:
    manifest = manifest_of(folder)
    studies: dict[str, str] = {}
    paths = []
    for row in stream_table(manifest):
        studies[row["study_id"]] = row.get("split", "")
        paths.append(folder / row["image"])
    texts = reports_of(manifest)
    labels = find_table(folder, "labels")
    tested = {study for study, split in studies.items() if split == "test"}
    return _facts(
        paths,
        len(paths),
        len(studies),
        sum(split == "train" for split in studies.values()),
        has_labels=labels is not None,
        letters=_letters(texts) if texts else 0,
        tested=HeldOut(len(tested), _present(labels, texts, tested)),
    )


def _present(
    labels: Path | None, reports: Path | None, studies: AbstractSet[str]
) -> Mapping[str, int]:
    """How many of these studies have each finding, by the labels or else by their reports."""
    if labels is not None:
        columns = TableRows(labels).columns
        if not (names := tuple(name for name in FINDINGS if name in columns)):
            return {}
        labeled = read_labels(labels, names)
        rows = (labeled[study] for study in studies & labeled.keys())
        return Counter(name for row in rows for name, value in row.items() if value == 1)
    return findings_in(
        [s for s in read_reports(reports) if s.study_id in studies] if reports else []
    )


def findings_in(reports: Sequence[Study]) -> Mapping[str, int]:
    """About how many reports affirm each finding, estimated from the first :data:`READ`."""
    counts = Counter[str]()
    for report in reports[:READ]:
        labels = label_report(sentence.sentence for sentence in study_sentences(report))
        counts.update(name for name, label in labels.items() if label.value == 1)
    more = max(1.0, len(reports) / READ)
    return {name: round(more * count) for name, count in counts.items()}


def facts_of_archive(
    images: Sequence[Path],
    count: int,
    letters: int,
    present: Mapping[str, int],
    *,
    has_labels: bool,
    shares: Mapping[str, float] | None = None,
) -> Facts:
    """Estimates for an archive of ``count`` images; ``images`` are some of them.

    ``present`` counts the studies with each finding, ``shares`` are those of the splits if the
    archive has its own.
    """
    part = shares or SHARES
    tested = {name: round(part["test"] * some) for name, some in present.items()}
    return _facts(
        images,
        count,
        count,
        round(part["train"] * count),
        has_labels=has_labels,
        letters=letters,
        tested=HeldOut(round(part["test"] * count), tested),
    )


def _facts(
    paths: Sequence[Path], images: int, studies: int, training: int, *, has_labels: bool,
    letters: int, tested: HeldOut,
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
        tested=tested,
    )


def _letters(table: Path) -> int:
    """Letters of all reports, or of their sections."""
    texts = [name for name in TableRows(table).columns if name in ("report", *SECTION_COLUMNS)]
    return sum(len(row[name]) for row in stream_table(table) for name in texts)
