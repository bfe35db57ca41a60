"""An import from beginning to end."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.ids import Ids, issued, read_key
from cxrtext.datasets.admission.public import NOTE
from cxrtext.datasets.checking.facts import open_cache
from cxrtext.datasets.importing.folder import (
    REPLACED,
    SAME,
    WRITTEN,
    LeftOutList,
    Placer,
    changed_since,
    claim_folder,
)
from cxrtext.datasets.importing.formats import open_layout
from cxrtext.datasets.importing.joining import (
    Boxes,
    LabelTable,
    Mended,
    Reports,
    Studies,
    names_of,
    present,
)
from cxrtext.datasets.importing.label_sentences import LabelSentences
from cxrtext.datasets.importing.loose import match_ids, written_twice
from cxrtext.datasets.importing.reading import FoundImage, ImportOptions, Reading, columns_kept
from cxrtext.datasets.importing.resolving import (
    Group,
    Seen,
    Waiting,
    find_equal,
    look_at,
    owner,
    read_merged,
    refused,
)
from cxrtext.datasets.importing.splits import Splits
from cxrtext.datasets.importing.versions import ReportVersion
from cxrtext.errors import DataError
from cxrtext.files import SUMS, only_one, write_sums
from cxrtext.pausing import StageProgress, silent
from cxrtext.records import (
    Absent,
    LeftOut,
    RowWriter,
    TableRows,
    iter_boxes,
    read_labels,
    write_boxes,
)
from cxrtext.records.cells import days_between
from cxrtext.records.manifest import DAYS, INSTANCE, SPLITS
from cxrtext.records.report_folder import following_links
from cxrtext.records.report_sources import LABELS, SOURCE
from cxrtext.records.study import DAMAGED
from cxrtext.records.tables import Kind

COLUMNS = ("image", "study_id", "patient_id", "split", "view")


@dataclass(slots=True)
class ImportSummary:
    """What an import did, counted."""

    layout: str
    images: int = 0
    studies: int = 0
    patients: int = 0
    columns: dict[str, str] = field(default_factory=dict)  # headers of the table, by column
    without_patient: int = 0  # images without a patient; their study is used instead
    splits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    # images by view; "not said" if nothing says it.
    views: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)  # what to know about some images
    not_there: tuple[str, ...] = ()  # the first files that are listed but missing
    # images by how they came into the folder: linked or copied.
    files: dict[str, int] = field(default_factory=dict)
    set_aside: dict[str, int] = field(default_factory=dict)  # files and rows left out, by reason
    # images with the pixels of another, by what the two have in common.
    same_images: dict[str, int] = field(default_factory=dict)
    merged: int = 0  # images with a patient renamed by the table of merges
    damaged: int = 0  # files and rows that should have been read but could not be
    reports: int | None = None  # reports that belong to a kept study
    reports_without_study: int = 0  # reports that belong to none
    # what became of all versions of reports, if there are any; see `ReportCounts`.
    report_versions: dict[str, int] | None = None
    studies_without_report: int = 0
    without_sentence: tuple[str, ...] = ()  # labels without a known sentence
    labelled: int | None = None
    findings: dict[str, int] = field(default_factory=dict)  # studies in which each is present
    boxes: int | None = None
    absent: int = 0  # phrases marked as having no box
    boxes_without_image: int = 0
    left_out: tuple[str, ...] = ()  # metadata that the set has but the manifest does not
    hashed: bool = False  # whether ids were replaced
    rejected_path: Path | None = None  # the list of what was left out
    folder: Path | None = field(default=None, compare=False)  # the data folder


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
        tell: StageProgress,
    ) -> None:
        self.root, self.out, self.options = root, out, options
        self.reading, self.ids, self.tell = reading, ids, tell
        self.columns, others = columns_kept(options.keep, reading.offered, layout, reading.names)
        self.summary = ImportSummary(layout, hashed=ids.hashed)
        self.summary.left_out = others if reading.lists_left_out else ()
        self.summary.columns = dict(reading.names)
        said = [reading.unread[name] for name in self.columns if name in reading.unread]
        said = [f"left blank: {one}" for one in said]
        self.summary.notes = dict.fromkeys((*reading.notes, *said), 1)
        self.placer = Placer(out, ids, link=options.link)
        # Whether an earlier run was killed, leaving images that no manifest names.
        self.unfinished = (out / NOTE).is_file() and not (out / SUMS).is_file()
        self.merged = read_merged(options.merged_patients)
        self.together: dict[str, str] = {}
        self.mended = Mended()
        self.first: dict[str, str] = {}  # when the first image of each patient was taken
        self.studies = Studies(by_image=reading.by_image, mended=self.mended)
        self.splits = Splits(options.split)
        self.split_of: dict[str, str] = {}
        self.reports = Reports()
        self.boxes: Boxes | None = None
        self.labels: LabelTable | None = None
        # Opened before anything is written.
        self.label_sentences: LabelSentences | None = None
        if options.label_sentences:
            if not reading.findings:
                raise DataError(f"{root}: has no labels for --label-sentences to make reports from")
            self.label_sentences = LabelSentences(reading.findings)
            reading = replace(reading, reports=None)
        open_boxes = partial(iter_boxes, options.boxes) if options.boxes else reading.boxes
        self._texts = reading.reports and reading.reports()
        self._boxes = open_boxes and open_boxes()

    def run(self, left_out: LeftOutList) -> ImportSummary:
        """Read the set and write the data folder."""
        done, options = self.summary, self.options
        if self._boxes is not None:
            self.boxes = Boxes(self._boxes, left_out)
        reports_only = done.layout == "reports"
        if not reports_only:
            self._write_images(left_out)
            if not done.images:
                raise DataError(self._nothing_kept(left_out))
        if self.label_sentences is not None:
            self._write_label_reports(self.label_sentences)
        else:
            self._write_reports(left_out, reports_only)
        if self.boxes is not None:
            joined = self.boxes.joined
            done.absent = sum(isinstance(box, Absent) for box in joined)
            done.boxes = len(joined) - done.absent
            done.boxes_without_image = self.boxes.count - len(joined)
            if options.boxes is not None:
                self._require_some(options.boxes, "boxes", len(joined), done.boxes_without_image)
            write_boxes(self.out / "boxes.json", joined)
        if self.labels is not None:
            done.labelled = self.labels.studies
            if options.labels is not None:
                self._require_some(options.labels, "labels", done.labelled, self.labels.others)
            done.findings = dict(self.labels.findings.most_common())
        # Remove what an earlier run wrote and this run did not.
        written = {"reports.csv": done.reports, REPLACED: done.reports, "labels.csv": done.labelled}
        for name, content in {**written, "boxes.json": done.boxes}.items():
            if content is None:
                (self.out / name).unlink(missing_ok=True)
        done.studies, done.patients = len(self.studies), len(self.split_of)
        done.views = dict(sorted(done.views.items()))
        done.files = dict(sorted(self.placer.counts.items()))
        done.set_aside = dict(left_out.counts.most_common())
        done.damaged = left_out.counts[DAMAGED]
        done.not_there = tuple(left_out.not_there)
        done.folder = self.out
        done.rejected_path = left_out.path if left_out.counts else None
        return done

    def _write_reports(self, left_out: LeftOutList, reports_only: bool) -> None:
        done, options = self.summary, self.options
        self._take_reports(left_out)
        counts = self.reports.counts
        if self._texts is None and not counts.versions:
            return
        studies = None if reports_only else self.studies
        self.reports.write(self.out, studies, self.merged, self.ids, left_out, self.tell)
        done.reports, done.reports_without_study = counts.written, counts.without_study
        done.report_versions = asdict(counts)
        if counts.empty:
            done.notes["reports that are empty or say nothing, such as NULL"] = counts.empty
        done.studies_without_report = len(self.studies) - len(self.studies.reported)
        if reports_only and not done.reports:
            raise DataError(f"{self.out}: no report could be read; see {left_out.path}")
        if not reports_only and options.reports is not None:
            others = done.reports_without_study + counts.other_patient
            self._require_some(options.reports, "reports", done.reports, others)

    def _take_reports(self, left_out: LeftOutList) -> None:
        if self._texts is not None:
            self.reports.take(self._texts, left_out)
            self._texts = iter(())

    def _write_label_reports(self, sentences: LabelSentences) -> None:
        done, columns = self.summary, ("study_id", "report", SOURCE)
        labels = read_labels(self.out / "labels.csv", self.reading.findings)
        done.reports = 0
        with RowWriter(self.out / "reports.csv", dict.fromkeys(columns, "text")) as writer:
            for study, values in labels.items():
                if text := sentences.report(values, study):
                    writer.write({"study_id": study, "report": text, SOURCE: LABELS})
                    done.reports += 1
        if not done.reports:
            raise DataError(f"{self.out}: no finding with sentences has a label 1 or 0")
        done.studies_without_report = len(self.studies) - done.reports
        done.without_sentence = sentences.without

    def _write_images(self, left_out: LeftOutList) -> None:
        columns = (*COLUMNS, *(c for c in self.columns if c not in COLUMNS))
        columns += (INSTANCE,) * (self.summary.layout == "dicom")
        with ExitStack() as stack:
            manifest = RowWriter(self.out / "manifest.csv", dict.fromkeys(columns, "text"))
            stack.enter_context(manifest)
            if self.reading.findings:
                shape: dict[str, Kind] = dict.fromkeys(("study_id", *self.reading.findings), "text")
                writer = stack.enter_context(RowWriter(self.out / "labels.csv", shape))
                self.labels = LabelTable(writer, self.studies, self.ids, left_out)
            for row in self._rows(left_out):
                manifest.write(row)
            for entry in self.reading.label_rows() if self.reading.label_rows else ():
                if isinstance(entry, LeftOut):
                    left_out.add(entry, of="labels")
                elif self.labels is not None:
                    self.labels.add(entry)

    def _rows(self, left_out: LeftOutList) -> Iterator[dict[str, Any]]:
        """Give the rows of the manifest and put their images in place."""
        images = list[Waiting]()
        self._scan(images, left_out)
        self._settle_ids(images, left_out)
        seen = self._look(images) if self.summary.layout == "dicom" else {}
        reasons = refused(images, seen)
        left = [one for one in images if one.number not in reasons]
        self.together, groups = find_equal(left, seen)
        self._keep_names(left)
        self._draw_splits(left, left_out)
        split_of: dict[str, str] = {}  # the split of each image, by its name
        for one in images:
            self.tell("putting images in place", one.number + 1, len(images))
            row = reasons.get(one.number) or self._keep(one)
            if not isinstance(row, dict):
                self.placer.remove([one.name])  # of an earlier run
                left_out.add(row)
                continue
            split_of[one.name] = row["split"]
            yield row
        self._write_equal(groups, split_of)

    def _scan(self, found: list[Waiting], left_out: LeftOutList) -> None:
        """Read everything that the set lists, before any image is put in place."""
        total, done = self.reading.count(), 0
        for entry in self.reading.images(self.columns):
            done += 1
            self.tell("reading headers", min(done, total), max(total, 1))
            if isinstance(entry, FoundImage):
                self._take(self._issued(entry), found, left_out)
            elif isinstance(entry, ReportVersion):
                self.reports.add(entry)
            else:
                left_out.add(entry)
        if done < total:
            self.tell("reading headers", total, total)

    def _settle_ids(self, found: list[Waiting], left_out: LeftOutList) -> None:
        """Match ids of the user's tables to those of the films, before any pixels are read."""
        options, patients, studies = self.options, set[str](), set[str]()
        self._join_patients(found)
        is_joined = options.reports is not None or options.labels is not None
        for one in found:
            image = one.image
            if "-" in (taken := image.metadata.get(DAYS, "")):  # a date, not a number of days
                key = owner(image)
                self.first[key] = min(taken, self.first.get(key, taken))
            if is_joined:
                patients.add(image.patient_id.removeprefix(image.issuer).removeprefix(":"))
                studies |= {image.study_id, image.accession}
                studies.update(names_of(image) if self.reading.by_image else ())
        studies.discard("")
        if options.reports is not None:
            self._take_reports(left_out)
            given = [
                one.accession if one.accession in studies else one.study or one.accession
                for one in self.reports.versions
            ]
            asked = [
                one.patient.partition(":")[2] or one.patient  # issuers are compared when joined
                for one in self.reports.versions
            ]
            asked = [self.mended.patients.get(one, one) for one in asked]
            both = zip(given, self.reports.versions, strict=True)
            distinct = {(one, v.status, v.time, v.texts) for one, v in both if not v.addendum}
            ranks = Counter(one[:3] for one in distinct).items()
            several = sorted(rank[0] for rank, count in ranks if count > 1)
            self._settle(options.reports, "study", given, studies, self.mended.studies, several)
            self._settle(options.reports, "patient", asked, patients, self.mended.patients)
        if options.labels is not None and self.reading.label_rows:
            rows = [row[0] for row in self.reading.label_rows() if not isinstance(row, LeftOut)]
            self._settle(options.labels, "study", rows, studies, self.mended.studies)

    def _settle(
        self, table: Path, what: str, given: Iterable[str], own: set[str], into: dict[str, str],
        repeated: Iterable[str] = (),
    ) -> None:  # fmt: skip
        mended, said = match_ids(table, what, given, own, self.options.ids, repeated)
        into |= mended
        if said:
            said = said if not self.ids.hashed else re.sub(r": '.*' in the films", "", said)
            self.summary.notes[said] = 1

    def _join_patients(self, found: list[Waiting]) -> None:
        """Note patients whom the user's table writes in two ways; with "loose" make them one."""
        again = written_twice(Counter(one.image.patient_id for one in found))
        if not again or not self.reading.names or self.summary.layout == "dicom":
            return
        note = "patients who are written in two ways"
        note += "" if self.ids.hashed else ": '{}' and '{}'".format(*next(iter(again.items())))
        loose = self.options.ids == "loose"
        self.summary.notes[f"{note}; {'' if loose else '--ids loose '}joins them"] = len(again)
        for n, one in enumerate(found if loose else ()):
            patient = again.get(one.image.patient_id, one.image.patient_id)
            found[n] = replace(one, image=replace(one.image, patient_id=patient))
        self.mended.patients |= again if loose else {}

    def _issued(self, image: FoundImage) -> FoundImage:
        """The image with the patient id that the hospital uses now: with issuer, and merged."""
        issuer = self.options.issuer
        if issuer and image.instance and image.patient_id and not image.issuer:
            patient = issued(image.patient_id, issuer)
            image = replace(image, patient_id=patient, issuer=issuer.replace(":", "%3A"))
        if self.options.labels is not None:
            image = replace(image, labels={})
        if image.patient_id in self.merged:
            self.summary.merged += 1
            image = replace(image, patient_id=self.merged[image.patient_id])
        return image

    def _take(self, image: FoundImage, found: list[Waiting], left_out: LeftOutList) -> None:
        if image.name != image.name.strip() or not image.name.isprintable():
            reason = "its name begins or ends with a space; rename the file"
            left_out.add(LeftOut(image.name, reason))
        elif (name := self.placer.name(image)) is None:
            left_out.add(LeftOut(image.name, what="the image was listed before"))
        else:
            found.append(Waiting(len(found), image, name))

    def _look(self, found: Sequence[Waiting]) -> dict[int, Seen]:
        """Look at the pixels of all images, except those already seen by an earlier run."""
        self.tell("looking at images", 0, len(found))
        with open_cache(self.out) as cache:
            return look_at(found, self.out, cache, self.tell)

    def _rows_before(self) -> Iterator[dict[str, str]]:
        """The manifest rows of an earlier run."""
        path = self.out / "manifest.csv"
        for row in TableRows(path) if path.is_file() else ():
            if not isinstance(row, LeftOut):
                yield row[1]

    def _keep_names(self, found: Sequence[Waiting]) -> None:
        names = {one.name for one in found}
        there = list(self.placer.placed()) if self.unfinished else []
        there += [row.get("image", "") for row in self._rows_before()]
        self.placer.remove(name for name in there if name not in names)

    def _write_equal(self, groups: Sequence[Group], kept: Mapping[str, str]) -> None:
        path = self.out / SAME
        if not groups:
            path.unlink(missing_ok=True)
            return
        columns = ("group", "image", "study_id", "patient_id", "split", "relation", "done")
        with RowWriter(path, dict.fromkeys(columns, "text")) as writer:
            for number, (relation, group) in enumerate(groups, 1):
                splits = {kept[one.name] for one in group if one.name in kept}
                apart = f"{relation}, in two splits" if len(splits) > 1 else relation
                done = self.summary.same_images
                done[apart] = done.get(apart, 0) + len(group) - 1
                for one in group:
                    row = {
                        "group": str(number),
                        "image": one.name,
                        "study_id": self.ids.of("study", one.image.study_id),
                        "patient_id": self._patient(one.image),
                        "split": kept.get(one.name, ""),
                        "relation": apart,
                        "done": "kept" if one.name in kept else "left out",
                    }
                    writer.write(row)

    def _patient(self, image: FoundImage) -> str:
        """The patient of an image as the manifest names it."""
        return self.ids.of("patient", image.patient_id) or self.ids.of("study", image.study_id)

    def _drawn_as(self, image: FoundImage) -> str:
        """The patient id that decides the split; the first, if several patients share images."""
        top = self.together.get(owner(image), image.patient_id)
        return self.ids.of("patient", top) or self.ids.of("study", image.study_id)

    def _draw_splits(self, found: Sequence[Waiting], left_out: LeftOutList) -> None:
        """Draw the unknown splits, balancing the findings in labels or reports."""
        rows = self._rows_before()  # with the same shares
        before = {row.get("patient_id", ""): row.get("split", "") for row in rows}
        studies = Studies(by_image=self.reading.by_image, mended=self.mended)
        patients = dict[str, str]()
        for one in found:
            patient = self._drawn_as(one.image)
            self.splits.add(patient, one.image.split)
            known = before.get(patient) or before.get(self._patient(one.image))
            if known and one.image.split not in SPLITS:
                self.splits.add(patient, known)
            self.splits.note(patient, present(one.image.labels))
            studies.add(one.image)
            patients[one.image.study_id] = patient
        if self.splits.are_drawn:
            for study, findings in self._findings(studies, left_out):
                self.splits.note(patients[study], findings)
        self.splits.draw()

    def _findings(self, studies: Studies, left_out: LeftOutList) -> Iterator[tuple[str, set[str]]]:
        if self.reading.findings:
            for entry in self.reading.label_rows() if self.reading.label_rows else ():
                if not isinstance(entry, LeftOut) and (study := studies.named(entry[0])):
                    yield study, present(entry[1])
            return
        self._take_reports(left_out)
        yield from self.reports.findings(studies, self.tell)

    def _keep(self, one: Waiting) -> dict[str, Any] | LeftOut:
        """Put an image in place and give its row; or say why it is not kept."""
        image, name = one.image, one.name
        patient = self._patient(image)
        known = self.split_of.get(patient)
        given = image.split if image.split in SPLITS else known
        split = given or self.splits[self._drawn_as(image)]
        if known not in (None, split):
            return LeftOut(image.name, f"its patient is in the split {known} too; keep one")
        if fault := changed_since(image):
            return LeftOut(image.name, fault)
        self.placer.place(image, name)
        self.split_of[patient] = split
        self.studies.add(image)
        done, view = self.summary, image.view or "not said"
        done.images += 1
        done.splits[split] += 1
        done.views[view] = done.views.get(view, 0) + 1
        for note in image.notes:
            done.notes[note] = done.notes.get(note, 0) + 1
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
            **({INSTANCE: self.ids.of(INSTANCE, image.instance)} if image.instance else {}),
        }

    def _metadata(self, image: FoundImage) -> dict[str, str]:
        if "-" in (taken := image.metadata.get(DAYS, "")):
            first = self.first[owner(image)]
            image = replace(image, metadata={**image.metadata, DAYS: days_between(first, taken)})
        return self.ids.of_metadata({k: v for k, v in image.metadata.items() if k not in COLUMNS})

    def _require_some(self, path: Path, what: str, joined: int, others: int) -> None:
        """Refuse a table that the user named if none of its rows belongs to the set."""
        if joined or not others:
            return
        (self.out / f"{what}.csv").unlink(missing_ok=True)
        one, joined_by = {
            "reports": ("report", "has the study_id or accession number of a study"),
            "boxes": ("box", "names an image that was kept"),
            "labels": ("label", "names a study or an image that was kept"),
        }[what]
        example = self.reports.example if what == "reports" and not self.ids.hashed else ""
        example = f"; the first: {example}" if example else ""
        raise DataError(
            f"{path}: no {one} matched: none of its {others} {joined_by} of {self.root}{example}; "
            f"give the {what} of this data set"
        )

    def _nothing_kept(self, left_out: LeftOutList) -> str:
        why = "; ".join(f"{kind}: {n}" for kind, n in left_out.counts.most_common(4))
        why = why or "the set lists no image"
        why += f"; {left_out.first}" if left_out.first else ""
        if left_out.not_there:
            why += f"; looked in {self.root} and below for {', '.join(left_out.not_there)} …"
        return f"{self.out}: no frontal radiograph was found ({why}); see {left_out.path}"


def import_folder(
    folder: Path,
    out: Path,
    options: ImportOptions | None = None,
    progress: StageProgress = silent,
) -> ImportSummary:
    """Turn the files of a hospital or of a public set into a data folder.

    Only frontal radiographs are kept.  The same command writes the same bytes again and resumes
    a killed run: images that are in place are not copied again.

    Args:
        folder: The set, or a table with a column ``image``.
        out: The data folder: new, or made by an earlier run with the same options.
        options: By default the layout is recognized and ids are kept.
        progress: Called with the stage, the files or rows done, and their total.
    """
    options = options or ImportOptions()
    options.check()
    ids = Ids(None if options.hash_key is None else read_key(options.hash_key))
    with following_links(options.follow_links):
        return _import(folder, out, options, ids, progress)


def _import(
    folder: Path, out: Path, options: ImportOptions, ids: Ids, progress: StageProgress
) -> ImportSummary:
    root, layout, reading = open_layout(folder, options, out)
    current = Import(root, out, options, layout, reading, ids, progress)
    claim_folder(out, root, options, layout, ids)
    with (
        only_one(out / "manifest.csv"),
        LeftOutList(out, ids, options.max_rejected) as left_out,
    ):
        (out / SUMS).unlink(missing_ok=True)  # until the tables are whole
        summary = current.run(left_out)
    for name in WRITTEN:
        if (out / name).is_file():
            (out / name).chmod(0o600)
    write_sums(out, [name for name in (NOTE, *WRITTEN) if (out / name).is_file()])
    return summary
