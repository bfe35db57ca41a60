"""An import from beginning to end."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.files import NOTE, WRITTEN, Placer
from cxrtext.datasets.importing.folder import DAMAGED, LeftOut, claim_folder
from cxrtext.datasets.importing.formats import open_layout
from cxrtext.datasets.importing.formats.generic import as_reports
from cxrtext.datasets.importing.identity import Ids, Studies, digest, draw_split, read_key
from cxrtext.datasets.importing.joining import Boxes, LabelTable, Tell, write_reports
from cxrtext.datasets.importing.reading import (
    AGE_TOP,
    FoundImage,
    ImportOptions,
    Reading,
    Skipped,
    check_options,
)
from cxrtext.datasets.importing.values import NO_VIEW
from cxrtext.errors import DataError
from cxrtext.files import SUMS, only_one, write_sums
from cxrtext.records import Rejected, RowWriter, iter_boxes, write_boxes
from cxrtext.records.tables import Kind

COLUMNS = ("image", "study_id", "patient_id", "split", "view")


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import did, counted."""

    layout: str  # the layout that was read
    images: int
    studies: int
    patients: int
    without_patient: int  # images whose patient is not named; their study stands for it
    splits: Mapping[str, int]
    views: Mapping[str, int]  # images by view; "not said" where nothing says it
    # images by how they came into the folder: linked, copied, left in place.
    files: Mapping[str, int]
    set_aside: Mapping[str, int]  # files and rows left out, by reason
    damaged: int = 0  # those of them that should have been read but could not be
    reports: int | None = None  # reports that belong to a kept study
    reports_without_study: int = 0  # reports that belong to none
    studies_without_report: int = 0  # studies that have none
    labelled: int | None = None
    # studies in which each finding is present.
    findings: Mapping[str, int] = field(default_factory=dict)
    boxes: int | None = None
    boxes_without_image: int = 0
    # columns of metadata that the set has and the manifest has not.
    left_out: tuple[str, ...] = ()
    hashed: bool = False  # whether ids were replaced
    rejected_path: Path | None = None  # the list of what was left out


class Import:
    """One import under way."""

    def __init__(
        self,
        root: Path,
        out: Path,
        options: ImportOptions,
        reading: Reading,
        ids: Ids,
        left_out: LeftOut,
        tell: Tell,
    ) -> None:
        self.root, self.out, self.options, self.reading = root, out, options, reading
        self.ids, self.left_out, self.tell = ids, left_out, tell
        self.placer = Placer(root, out, ids, copy=options.copy)
        self.studies = Studies()
        self.split_of: dict[int, str] = {}
        self.splits: Counter[str] = Counter()
        self.views: Counter[str] = Counter()
        self.without_patient = 0
        self.boxes: Boxes | None = None
        self.labels: LabelTable | None = None
        self.reports: tuple[int, int] | None = None

    def read(self) -> None:
        """Read the set and write the data folder."""
        boxes = self.reading.boxes
        if self.options.boxes is not None:
            boxes = iter_boxes(self.options.boxes)
        if boxes is not None:
            self.boxes = Boxes(boxes, self.left_out)
        reports = self.reading.reports
        if self.options.reports is not None:
            reports = as_reports(self.options.reports)
        reports_only = self.reading.layout == "reports"
        if not reports_only:
            self._write_images()
            if not self.splits:
                raise DataError(self._nothing_kept())
        if reports is not None:
            studies = None if reports_only else self.studies
            self.reports = write_reports(
                self.out / "reports.csv", reports, studies, self.ids, self.left_out, self.tell
            )
            if reports_only and not self.reports[0]:
                raise DataError(f"{self.out}: no report could be read; see {self.left_out.path}")
            if not reports_only and self.options.reports is not None:
                self._require_some(self.options.reports, "reports", *self.reports)
        if self.boxes is not None:
            if self.options.boxes is not None:
                joined = len(self.boxes.joined)
                others = self.boxes.count - joined
                self._require_some(self.options.boxes, "boxes", joined, others)
            write_boxes(self.out / "boxes.json", self.boxes.joined)
        self._remove_old()

    def _write_images(self) -> None:
        """Write the manifest, and the labels, which may come with the images."""
        columns = (*COLUMNS, *(c for c in self.reading.columns if c not in COLUMNS))
        with ExitStack() as stack:
            manifest = RowWriter(self.out / "manifest.csv", dict.fromkeys(columns, "text"))
            stack.enter_context(manifest)
            if self.reading.findings:
                shape: dict[str, Kind] = dict.fromkeys(("study_id", *self.reading.findings), "text")
                writer = stack.enter_context(RowWriter(self.out / "labels.csv", shape))
                self.labels = LabelTable(writer, self.studies, self.ids)
            for row in self._rows():
                manifest.write(row)
            for entry in self.reading.label_rows or ():
                if isinstance(entry, Rejected):
                    self.left_out.add(entry)
                elif self.labels is not None:
                    self.labels.add(entry)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the manifest."""
        total, done = self.reading.count(), 0
        for entry in self.reading.images():
            done += 1
            self.tell("reading images", min(done, total), max(total, 1))
            if not isinstance(entry, FoundImage):
                self.left_out.add(entry)
                continue
            row = self._keep(entry)
            if isinstance(row, dict):
                yield row
            else:
                self.left_out.add(row)
        if done < total:
            self.tell("reading images", total, total)

    def _keep(self, image: FoundImage) -> dict[str, Any] | Skipped | Rejected:
        """The row of an image; or why it is not kept."""
        if not image.view and self.options.require_view:
            return Skipped(image.name, NO_VIEW)
        patient = self.ids.of("patient", image.patient_id) or self.ids.of("study", image.study_id)
        known = self.split_of.get(digest(patient))
        split = image.split if image.split in ("train", "val", "test") else known
        if split is None:
            split = draw_split(patient, self.options.split, self.options.seed, image.split)
        if known not in (None, split):
            return Rejected(image.name, f"its patient is in the split {known} too; keep one")
        if image.name != image.name.strip() or not image.name.isprintable():
            return Rejected(image.name, "its name begins or ends with a space; rename the file")
        name = self.placer.place(image)
        if name is None:
            return Rejected(image.name, "the image was listed before; list it once")
        self.split_of[digest(patient)] = split
        self.studies.add(image)
        self.splits[split] += 1
        self.views[image.view or "not said"] += 1
        self.without_patient += not image.patient_id
        if self.boxes is not None:
            self.boxes.join(image, name)
        if image.labels and self.labels is not None:
            self.labels.add((image.study_id, image.labels))
        return {
            "image": name,
            "study_id": self.ids.of("study", image.study_id),
            "patient_id": patient,
            "split": split,
            "view": image.view,
            **self._metadata(image),
        }

    def _metadata(self, image: FoundImage) -> dict[str, str]:
        values = {k: v for k, v in image.metadata.items() if k not in COLUMNS}
        if self.ids.hashed:
            for name in values.keys() & {"accession", "subject_id"}:
                values[name] = self.ids.of("accession", values[name])
            age = values.get("age", "")
            if age.isdigit() and int(age) > AGE_TOP:
                values["age"] = str(AGE_TOP + 1)
        return values

    def _require_some(self, path: Path, what: str, joined: int, others: int) -> None:
        """Refuse a table that the user named and of which nothing belongs to the set."""
        if joined or not others:
            return
        (self.out / f"{what}.csv").unlink(missing_ok=True)
        one, joined_by = {
            "reports": ("report", "has the study_id or accession number of a study"),
            "boxes": ("box", "names an image that was kept"),
        }[what]
        raise DataError(
            f"{path}: no {one} matched: none of its {others} {joined_by} of {self.root}; give the "
            f"{what} of this data set"
        )

    def _nothing_kept(self) -> str:
        why = "; ".join(f"{kind}: {n}" for kind, n in self.left_out.counts.most_common(4))
        return (
            f"{self.out}: no frontal radiograph was found ({why or 'the set lists no image'}); "
            f"see {self.left_out.path}"
        )

    def _remove_old(self) -> None:
        """Remove tables that an earlier run wrote and this one has no content for."""
        written = {"reports.csv": self.reports, "labels.csv": self.labels, "boxes.json": self.boxes}
        for name, content in written.items():
            if content is None:
                (self.out / name).unlink(missing_ok=True)

    def summary(self) -> ImportSummary:
        """What was done, counted."""
        boxes = self.boxes
        return ImportSummary(
            layout=self.reading.layout,
            images=self.splits.total(),
            studies=len(self.studies),
            patients=len(self.split_of),
            without_patient=self.without_patient,
            splits={name: self.splits[name] for name in ("train", "val", "test")},
            views=dict(sorted(self.views.items())),
            files=dict(sorted(self.placer.counts.items())),
            set_aside=dict(self.left_out.counts.most_common()),
            damaged=self.left_out.counts[DAMAGED],
            reports=None if self.reports is None else self.reports[0],
            reports_without_study=0 if self.reports is None else self.reports[1],
            studies_without_report=0 if self.reports is None else self.studies.without_report,
            labelled=None if self.labels is None else self.labels.studies,
            findings={} if self.labels is None else dict(self.labels.findings.most_common()),
            boxes=None if boxes is None else len(boxes.joined),
            boxes_without_image=0 if boxes is None else boxes.count - len(boxes.joined),
            left_out=self.reading.left_out,
            hashed=self.ids.hashed,
            rejected_path=self.left_out.path if self.left_out.counts else None,
        )


def _silent(_stage: str, _done: int, _total: int) -> None:
    return


def import_folder(
    folder: Path, out: Path, options: ImportOptions | None = None, progress: Tell | None = None
) -> ImportSummary:
    """Turn the files of a hospital or of a public set into a data folder.

    Only frontal radiographs are kept.  The same command gives the same bytes again, and goes on
    where a killed run stopped: images that are in place are not linked or copied again.

    Args:
        folder: The set; or a table with a column ``image``.
        out: The data folder: new, or of an earlier run with the same options.
        options: What the user chose; by default the layout is recognized and ids are kept.
        progress: Called with the stage, the files or rows done, and those in all.

    Raises:
        ConfigError: An option is wrong.
        DataError: No layout is recognized, a table is missing or wrong, more files are damaged than
            ``max_rejected``, no image is kept, or ``out`` holds something else.
        WorkError: A file cannot be written, or another process imports into ``out``.
    """
    options = options or ImportOptions()
    check_options(options)
    ids = Ids(None if options.hash_key is None else read_key(options.hash_key))
    root, reading = open_layout(folder, options, out)
    claim_folder(out, root, options, reading.layout, ids)
    with only_one(out / "manifest.csv"), LeftOut(out, ids, options.max_rejected) as left_out:
        (out / SUMS).unlink(missing_ok=True)  # until the tables are whole
        current = Import(root, out, options, reading, ids, left_out, progress or _silent)
        current.read()
    write_sums(out, [name for name in (NOTE, *WRITTEN) if (out / name).is_file()])
    return current.summary()
