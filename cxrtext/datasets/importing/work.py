"""The work of an import: the manifest written row by row, and the other tables after it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.found import Aside, FoundImage, Reading
from cxrtext.datasets.importing.generic import as_reports
from cxrtext.datasets.importing.identity import Ids, digest, draw_split
from cxrtext.datasets.importing.joining import Boxes, LabelTable, Tell, write_reports
from cxrtext.datasets.importing.options import AGE_TOP, ImportOptions
from cxrtext.datasets.importing.placing import Placer
from cxrtext.datasets.importing.set_aside import DAMAGED, SetAside
from cxrtext.datasets.importing.studies import Studies
from cxrtext.datasets.importing.summary import ImportSummary
from cxrtext.datasets.importing.views import NO_VIEW
from cxrtext.errors import DataError
from cxrtext.records import BadItem, RowWriter, iter_boxes, write_boxes
from cxrtext.records.tables import Kind

COLUMNS = ("image", "study_id", "patient_id", "split", "view")


def _texts(*columns: str) -> dict[str, Kind]:
    return dict.fromkeys(columns, "text")


class Import:
    """One import under way.

    Args:
        root: The folder of the set, all links followed.
        out: The data folder.
        options: What the user chose.
        reading: The set.
        ids: Gives the ids to be written.
        aside: Takes what is left out.
        tell: Told of the progress.
    """

    def __init__(
        self,
        root: Path,
        out: Path,
        options: ImportOptions,
        reading: Reading,
        ids: Ids,
        aside: SetAside,
        tell: Tell,
    ) -> None:
        self.root, self.out, self.options, self.reading = root, out, options, reading
        self.ids, self.aside, self.tell = ids, aside, tell
        self.placer = Placer(root, out, ids, copy=options.copy)
        self.studies = Studies()
        self.split_of: dict[int, str] = {}
        self.splits: Counter[str] = Counter()
        self.views: Counter[str] = Counter()
        self.without_patient = 0
        self.boxes: Boxes | None = None
        self.labels: LabelTable | None = None
        self.reports: tuple[int, int] | None = None

    def work(self) -> None:
        """Read the set and write the data folder."""
        boxes = self.reading.boxes
        if self.options.boxes is not None:
            boxes = iter_boxes(self.options.boxes)
        if boxes is not None:
            self.boxes = Boxes(boxes, self.aside)
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
                self.out / "reports.csv", reports, studies, self.ids, self.aside, self.tell
            )
            if reports_only and not self.reports[0]:
                raise DataError(f"{self.out}: no report could be read; see {self.aside.path}")
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
            manifest = RowWriter(self.out / "manifest.csv", _texts(*columns))
            stack.enter_context(manifest)
            if self.reading.findings:
                shape = _texts("study_id", *self.reading.findings)
                writer = stack.enter_context(RowWriter(self.out / "labels.csv", shape))
                self.labels = LabelTable(writer, self.studies, self.ids)
            for row in self._rows():
                manifest.write(row)
            for entry in self.reading.label_rows or ():
                if isinstance(entry, BadItem):
                    self.aside.add(entry)
                elif self.labels is not None:
                    self.labels.add(entry)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the manifest."""
        total, done = self.reading.count(), 0
        for entry in self.reading.images():
            done += 1
            self.tell("reading images", min(done, total), max(total, 1))
            if not isinstance(entry, FoundImage):
                self.aside.add(entry)
                continue
            row = self._keep(entry)
            if isinstance(row, dict):
                yield row
            else:
                self.aside.add(row)
        if done < total:
            self.tell("reading images", total, total)

    def _keep(self, image: FoundImage) -> dict[str, Any] | Aside | BadItem:
        """The row of an image; or why it is not kept."""
        if not image.view and self.options.require_view:
            return Aside(image.name, NO_VIEW)
        patient = self.ids.of("patient", image.patient_id) or self.ids.of("study", image.study_id)
        known = self.split_of.get(digest(patient))
        split = image.split if image.split in ("train", "val", "test") else known
        if split is None:
            split = draw_split(patient, self.options.split, self.options.seed, image.split)
        if known not in (None, split):
            return BadItem(image.name, f"its patient is in the split {known} too; keep one")
        if image.name != image.name.strip() or not image.name.isprintable():
            return BadItem(image.name, "its name begins or ends with a space; rename the file")
        name = self.placer.place(image)
        if name is None:
            return BadItem(image.name, "the image was listed before; list it once")
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
        why = "; ".join(f"{kind}: {n}" for kind, n in self.aside.counts.most_common(4))
        return (
            f"{self.out}: no frontal radiograph was found ({why or 'the set lists no image'}); "
            f"see {self.aside.path}"
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
            set_aside=dict(self.aside.counts.most_common()),
            damaged=self.aside.counts[DAMAGED],
            reports=None if self.reports is None else self.reports[0],
            reports_without_study=0 if self.reports is None else self.reports[1],
            studies_without_report=0 if self.reports is None else self.studies.without_report,
            labelled=None if self.labels is None else self.labels.studies,
            findings={} if self.labels is None else dict(self.labels.findings.most_common()),
            boxes=None if boxes is None else len(boxes.joined),
            boxes_without_image=0 if boxes is None else boxes.count - len(boxes.joined),
            left_out=self.reading.left_out,
            hashed=self.ids.hashed,
            rejected_path=self.aside.path if self.aside.counts else None,
        )
