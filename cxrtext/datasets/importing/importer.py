"""An import from beginning to end."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.ids import Ids, digest, read_key
from cxrtext.datasets.importing.folder import DAMAGED, NOTE, WRITTEN, LeftOut, Placer, claim_folder
from cxrtext.datasets.importing.formats import open_layout
from cxrtext.datasets.importing.formats.generic import as_reports
from cxrtext.datasets.importing.identity import Studies, draw_split
from cxrtext.datasets.importing.joining import Boxes, LabelTable, Tell, write_reports
from cxrtext.datasets.importing.reading import (
    AGE_TOP,
    FoundImage,
    ImportOptions,
    Reading,
    Skipped,
    columns_kept,
)
from cxrtext.datasets.importing.values import NO_VIEW
from cxrtext.errors import DataError
from cxrtext.files import SUMS, only_one, write_sums
from cxrtext.records import Rejected, RowWriter, iter_boxes, write_boxes
from cxrtext.records.manifest import SPLITS
from cxrtext.records.tables import Kind

COLUMNS = ("image", "study_id", "patient_id", "split", "view")


@dataclass(slots=True)
class ImportSummary:
    """What an import did, counted."""

    layout: str  # the layout that was read
    images: int = 0
    studies: int = 0
    patients: int = 0
    without_patient: int = 0  # images whose patient is not named; their study stands for it
    splits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    # images by view; "not said" where nothing says it.
    views: dict[str, int] = field(default_factory=dict)
    # images by how they came into the folder: linked, copied, left in place.
    files: dict[str, int] = field(default_factory=dict)
    set_aside: dict[str, int] = field(default_factory=dict)  # files and rows left out, by reason
    damaged: int = 0  # those of them that should have been read but could not be
    reports: int | None = None  # reports that belong to a kept study
    reports_without_study: int = 0  # reports that belong to none
    studies_without_report: int = 0  # studies that have none
    labelled: int | None = None
    findings: dict[str, int] = field(default_factory=dict)  # studies in which each is present
    boxes: int | None = None
    boxes_without_image: int = 0
    left_out: tuple[str, ...] = ()  # metadata that the set has and the manifest has not
    hashed: bool = False  # whether ids were replaced
    rejected_path: Path | None = None  # the list of what was left out


class Import:
    """One import under way."""

    def __init__(
        self,
        root: Path,
        out: Path,
        options: ImportOptions,
        layout: str,
        reading: Reading,
        ids: Ids,
        tell: Tell,
    ) -> None:
        self.root, self.out, self.options = root, out, options
        self.reading, self.ids, self.tell = reading, ids, tell
        self.columns, others = columns_kept(options.keep, reading.offered, layout)
        self.summary = ImportSummary(layout, hashed=ids.hashed)
        self.summary.left_out = others if reading.lists_left_out else ()
        self.placer = Placer(root, out, ids, copy=options.copy)
        self.studies = Studies()
        self.split_of: dict[int, str] = {}
        self.boxes: Boxes | None = None
        self.labels: LabelTable | None = None
        # Opened before anything is written.
        given = options.reports, options.boxes
        open_texts = partial(as_reports, given[0]) if given[0] else reading.reports
        open_boxes = partial(iter_boxes, given[1]) if given[1] else reading.boxes
        self._texts, self._boxes = open_texts and open_texts(), open_boxes and open_boxes()

    def run(self, left_out: LeftOut) -> ImportSummary:
        """Read the set and write the data folder."""
        done, options = self.summary, self.options
        if self._boxes is not None:
            self.boxes = Boxes(self._boxes, left_out)
        reports_only = done.layout == "reports"
        if not reports_only:
            self._write_images(left_out)
            if not done.images:
                raise DataError(self._nothing_kept(left_out))
        if self._texts is not None:
            studies = None if reports_only else self.studies
            path = self.out / "reports.csv"
            done.reports, done.reports_without_study = write_reports(
                path, self._texts, studies, self.ids, left_out, self.tell
            )
            done.studies_without_report = self.studies.without_report
            if reports_only and not done.reports:
                raise DataError(f"{self.out}: no report could be read; see {left_out.path}")
            if not reports_only and options.reports is not None:
                others = done.reports_without_study
                self._require_some(options.reports, "reports", done.reports, others)
        if self.boxes is not None:
            done.boxes = len(self.boxes.joined)
            done.boxes_without_image = self.boxes.count - done.boxes
            if options.boxes is not None:
                self._require_some(options.boxes, "boxes", done.boxes, done.boxes_without_image)
            write_boxes(self.out / "boxes.json", self.boxes.joined)
        if self.labels is not None:
            done.labelled = self.labels.studies
            done.findings = dict(self.labels.findings.most_common())
        # What an earlier run wrote and this one has no content for.
        written = {"reports.csv": done.reports, "labels.csv": done.labelled}
        for name, content in {**written, "boxes.json": done.boxes}.items():
            if content is None:
                (self.out / name).unlink(missing_ok=True)
        done.studies, done.patients = len(self.studies), len(self.split_of)
        done.views = dict(sorted(done.views.items()))
        done.files = dict(sorted(self.placer.counts.items()))
        done.set_aside = dict(left_out.counts.most_common())
        done.damaged = left_out.counts[DAMAGED]
        done.rejected_path = left_out.path if left_out.counts else None
        return done

    def _write_images(self, left_out: LeftOut) -> None:
        """Write the manifest, and the labels, which may come with the images."""
        columns = (*COLUMNS, *(c for c in self.columns if c not in COLUMNS))
        with ExitStack() as stack:
            manifest = RowWriter(self.out / "manifest.csv", dict.fromkeys(columns, "text"))
            stack.enter_context(manifest)
            if self.reading.findings:
                shape: dict[str, Kind] = dict.fromkeys(("study_id", *self.reading.findings), "text")
                writer = stack.enter_context(RowWriter(self.out / "labels.csv", shape))
                self.labels = LabelTable(writer, self.studies, self.ids)
            for row in self._rows(left_out):
                manifest.write(row)
            for entry in self.reading.label_rows or ():
                if isinstance(entry, Rejected):
                    left_out.add(entry)
                elif self.labels is not None:
                    self.labels.add(entry)

    def _rows(self, left_out: LeftOut) -> Iterator[dict[str, Any]]:
        """The rows of the manifest."""
        total, done = self.reading.count(), 0
        for entry in self.reading.images(self.columns):
            done += 1
            self.tell("reading images", min(done, total), max(total, 1))
            if not isinstance(entry, FoundImage):
                left_out.add(entry)
                continue
            row = self._keep(entry)
            if isinstance(row, dict):
                yield row
            else:
                left_out.add(row)
        if done < total:
            self.tell("reading images", total, total)

    def _keep(self, image: FoundImage) -> dict[str, Any] | Skipped | Rejected:
        """The row of an image; or why it is not kept."""
        if not image.view and self.options.require_view:
            return Skipped(image.name, NO_VIEW)
        patient = self.ids.of("patient", image.patient_id) or self.ids.of("study", image.study_id)
        known = self.split_of.get(digest(patient))
        split = image.split if image.split in SPLITS else known
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
        done, view = self.summary, image.view or "not said"
        done.images += 1
        done.splits[split] += 1
        done.views[view] = done.views.get(view, 0) + 1
        done.without_patient += not image.patient_id
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

    def _nothing_kept(self, left_out: LeftOut) -> str:
        why = "; ".join(f"{kind}: {n}" for kind, n in left_out.counts.most_common(4))
        why = why or "the set lists no image"
        return f"{self.out}: no frontal radiograph was found ({why}); see {left_out.path}"


def _silent(_stage: str, _done: int, _total: int) -> None:
    return


def import_folder(
    folder: Path, out: Path, options: ImportOptions | None = None, progress: Tell | None = None
) -> ImportSummary:
    """Turn the files of a hospital or of a public set into a data folder.

    Only frontal radiographs are kept.  The same command gives the same bytes again, and resumes
    a killed run: images that are in place are not linked or copied again.

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
    options.check()
    ids = Ids(None if options.hash_key is None else read_key(options.hash_key))
    root, layout, reading = open_layout(folder, options.layout, out)
    current = Import(root, out, options, layout, reading, ids, progress or _silent)
    claim_folder(out, root, options, layout, ids)
    with only_one(out / "manifest.csv"), LeftOut(out, ids, options.max_rejected) as left_out:
        (out / SUMS).unlink(missing_ok=True)  # until the tables are whole
        summary = current.run(left_out)
    write_sums(out, [name for name in (NOTE, *WRITTEN) if (out / name).is_file()])
    return summary
