"""The kept studies, and the reports, labels and boxes joined to them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from cxrtext.datasets.admission.ids import Ids
from cxrtext.datasets.importing.folder import REPLACED, LeftOutList, without_ending
from cxrtext.datasets.importing.reading import FoundImage, LabelRow
from cxrtext.datasets.importing.resolving import owner
from cxrtext.datasets.importing.versions import (
    UNDECIDED,
    Chosen,
    ReportVersion,
    Status,
    choose,
    of_study,
    whole_text,
)
from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import text_of
from cxrtext.images.dicom.file import NotDicomError, read_wanted
from cxrtext.pausing import StageProgress
from cxrtext.records import Absent, Box, LeftOut, RowWriter, Study
from cxrtext.records.cells import says_nothing
from cxrtext.records.tables import Kind
from cxrtext.text import study_sentences
from cxrtext.text.finding_words import affirmed_findings


@dataclass(slots=True)
class Mended:
    """The films' ids, by the ids that a spreadsheet made of them."""

    studies: dict[str, str] = field(default_factory=dict)
    patients: dict[str, str] = field(default_factory=dict)


def names_of(image: FoundImage) -> tuple[str, str]:
    """What a report may call an image: its path, or its file name without the ending."""
    return image.name, without_ending(image.name, last=True)


class Studies:
    """The kept studies, the numbers and images that name them, and which have a report."""

    def __init__(self, *, by_image: bool = False, mended: Mended | None = None) -> None:
        self._mended = mended or Mended()
        self.kept: dict[str, tuple[str, str]] = {}  # patient and issuer of each study
        self._by_image = by_image
        self._of_image: dict[str, str | None] = {}
        self.reported: set[str] = set()  # studies with a report
        # By issuer and number: study, patient, and whether it has an issuer; None if two studies
        # share the number.
        self._by_accession: dict[tuple[str, str], tuple[str, str, bool] | None] = {}

    def __len__(self) -> int:
        return len(self.kept)

    def add(self, image: FoundImage) -> None:
        """Add the study of a kept image."""
        self.kept.setdefault(image.study_id, (image.patient_id, image.issuer))
        for name in names_of(image):
            if self._of_image.setdefault(name, image.study_id) != image.study_id:
                self._of_image[name] = None
        if not image.accession or image.accession == image.study_id:
            return
        issuer = image.accession_issuer
        entry = image.study_id, owner(image), bool(issuer)
        for key in {_number("", image.accession), _number(issuer, image.accession)}:
            # A number that two studies share names neither: a report could go to the wrong patient.
            if self._by_accession.setdefault(key, entry) != entry:
                self._by_accession[key] = None

    def named(self, number: str, issuer: str = "") -> str | None:
        """The study that a report or a label row names by study id, accession number or image.

        A number with an issuer belongs to a study with that issuer or without one.
        """
        number = self._mended.studies.get(number, number)
        if number in self.kept:
            return number
        if self._by_image and (study := self._of_image.get(number)):
            return study
        entry = self._by_accession.get(_number(issuer, number))
        if issuer and entry is None and _number(issuer, number) not in self._by_accession:
            entry = self._by_accession.get(_number("", number))
            entry = None if entry is None or entry[2] else entry
        return None if entry is None else entry[0]

    def all_named(self, version: ReportVersion) -> list[str]:
        """The studies that a report's accession number, study and image name; one if they agree."""
        by_number = version.accession and self.named(version.accession, version.issuer)
        named = [by_number, version.study and self.named(version.study)]
        named += [self._of_image.get(version.image)] * any(named)
        return list(dict.fromkeys(filter(None, named)))

    def is_of(self, study_id: str, patient: str) -> bool:
        """Whether a study may belong to a patient; an id without issuer is compared alone."""
        own, issuer = self.kept.get(study_id, ("", ""))
        patient = self._mended.patients.get(patient, patient)
        if not own or not patient or own == patient:
            return True
        bare = patient.partition(":")[2] or patient
        own = own.removeprefix(f"{issuer}:") if issuer else own
        return bare == own and not (":" in patient and issuer)


def _number(issuer: str, accession: str) -> tuple[str, str]:
    return issuer.casefold(), accession.casefold()


OTHER_LABELS = "its study has other labels before, which count"
TWO_STUDIES = "its accession number, study and image name two studies"
OTHER_PATIENT = "names another patient than its study"


@dataclass(slots=True)
class ReportCounts:
    """What became of all versions of reports; the other fields add up to ``versions``."""

    versions: int = 0
    written: int = 0
    addenda: int = 0  # appended to a written one
    replaced: int = 0  # listed in `REPLACED` with the reason
    again: int = 0  # repeat another version
    empty: int = 0  # say nothing
    without_study: int = 0
    other_patient: int = 0  # left out: their study is another patient's


class Reports:
    """Versions of reports, held until all images are known."""

    def __init__(self) -> None:
        self.counts = ReportCounts()
        self.example = ""  # why the first was left out, with its ids
        self.versions: list[ReportVersion] = []

    def add(self, version: ReportVersion) -> None:
        self.counts.versions += 1
        if version.status != Status.WITHDRAWN and all(map(says_nothing, version.texts)):
            self.counts.empty += 1
        else:
            self.versions.append(version)

    def take(
        self, entries: Iterable[Study | ReportVersion | LeftOut], left_out: LeftOutList
    ) -> None:
        for entry in entries:
            if isinstance(entry, LeftOut):
                left_out.add(LeftOut(f"reports {entry.where}", entry.why), of="report")
            else:
                self.add(of_study(entry) if isinstance(entry, Study) else entry)

    def write(
        self, out: Path, studies: Studies | None, merged: Mapping[str, str], ids: Ids,
        left_out: LeftOutList, tell: StageProgress,
    ) -> None:  # fmt: skip
        """Write the reports of the kept studies, or all if None, and the replaced versions."""
        of_study = self._joined(studies, merged, left_out)
        columns = _columns([one for some in of_study.values() for one in some])
        rest = dict.fromkeys(("study_id", "status", "time", "why", "report"), "text")
        paths = out / "reports.csv", out / REPLACED
        with ExitStack() as stack:
            writer = stack.enter_context(RowWriter(paths[0], dict.fromkeys(columns, "text")))
            beside = stack.enter_context(RowWriter(paths[1], cast("dict[str, Kind]", rest)))
            for done, (study, versions) in enumerate(of_study.items(), 1):
                chosen = choose(versions)
                study_id = ids.of("study", study)
                self._write_one(chosen, study_id, columns, writer, beside, left_out)
                if studies is not None and chosen.report is not None:
                    studies.reported.add(study)
                if done % 100 == 0:
                    tell("joining reports", done, len(of_study))
        if not self.counts.replaced:
            paths[1].unlink()
        if not self.counts.written:
            paths[0].unlink()

    def _write_one(
        self, chosen: Chosen, study_id: str, columns: Sequence[str], writer: RowWriter,
        beside: RowWriter, left_out: LeftOutList,
    ) -> None:  # fmt: skip
        counts = self.counts
        counts.again += chosen.again
        if chosen.report is not None:
            report, sections = whole_text(chosen)
            texts = {name: {**sections, "report": report}.get(name, "") for name in columns[1:]}
            writer.write({"study_id": study_id, **texts})
            counts.written += 1
            counts.addenda += len(chosen.addenda)
        for version, why in chosen.replaced:
            counts.replaced += 1
            parts = filter(None, (version.report, *version.sections.values()))
            beside.write(
                {
                    "study_id": study_id,
                    "status": version.status.name.lower(),
                    "time": version.time,
                    "why": why,
                    "report": "\n\n".join(parts),
                }
            )
            if why == UNDECIDED:
                left_out.add(LeftOut(version.item, "name a status or time", UNDECIDED), of="report")

    def _joined(
        self, studies: Studies | None, merged: Mapping[str, str], left_out: LeftOutList
    ) -> dict[str, list[ReportVersion]]:
        """The versions of each study."""
        joined: dict[str, list[ReportVersion]] = {}
        for version in self.versions:
            study = version.study or version.accession
            if studies is not None:
                named, why = studies.all_named(version), ""
                patient = merged.get(version.patient, version.patient)
                if len(named) > 1:
                    keys = filter(None, (version.accession, version.study, version.image))
                    why, said = TWO_STUDIES, ", ".join(keys)
                elif named and not studies.is_of(named[0], patient):
                    why, said = OTHER_PATIENT, f"{version.patient} and {studies.kept[named[0]][0]}"
                if why:
                    left_out.add(LeftOut(version.item, what=why), of="report")
                    self.example = self.example or f"{why}: {said}"
                if why or not named:
                    self.counts.other_patient += why == OTHER_PATIENT
                    self.counts.without_study += why != OTHER_PATIENT
                    continue
                study = named[0]
            joined.setdefault(study, []).append(version)
        return joined

    def findings(self, studies: Studies, tell: StageProgress) -> Iterator[tuple[str, set[str]]]:
        """The study of each version that has one, and the findings that the version affirms."""
        for number, version in enumerate(self.versions):
            for study in studies.all_named(version)[:1]:
                sentences = study_sentences(Study(study, version.report, version.sections))
                yield study, affirmed_findings(one.sentence for one in sentences)
            if number % 100 == 0:
                tell("reading findings", number + 1, len(self.versions))


def _columns(versions: Iterable[ReportVersion]) -> list[str]:
    sections: dict[str, None] = {}
    has_report = False
    for version in versions:
        sections.update(dict.fromkeys(version.sections))
        has_report = has_report or bool(version.report) or not version.sections
    return ["study_id", *(("report",) if has_report else ()), *sections]


def present(labels: Mapping[str, str]) -> set[str]:
    """The findings with the label 1."""
    return {name for name, value in labels.items() if value == "1"}


class LabelTable:
    """Writes the labels of every study once."""

    def __init__(
        self, writer: RowWriter, studies: Studies, ids: Ids, left_out: LeftOutList
    ) -> None:
        self.studies = 0
        self.others = 0  # rows for studies that were not kept
        self.findings: Counter[str] = Counter()
        self._writer, self._known, self._ids = writer, studies, ids
        self._left_out = left_out
        self._said: dict[str, Mapping[str, str]] = {}  # the labels of a study

    def add(self, row: LabelRow) -> None:
        """Write the labels of a kept study once; later rows that differ are listed as left out."""
        if (study_id := self._known.named(row[0])) is None:
            self.others += 1
        elif (said := self._said.setdefault(study_id, row[1])) is row[1]:
            self._writer.write({"study_id": self._ids.of("study", study_id), **row[1]})
            self.studies += 1
            self.findings.update(sorted(present(row[1])))
        elif said != row[1]:
            item = f"labels of {self._ids.of('study', study_id)}"
            self._left_out.add(LeftOut(item, what=OTHER_LABELS), of="labels")


class Boxes:
    """The boxes of a set, and its phrases without a box, held until their images are known."""

    def __init__(self, boxes: Iterable[Box | Absent | LeftOut], left_out: LeftOutList) -> None:
        self.joined: list[Box | Absent] = []
        self.count = 0
        self._waiting: dict[str, list[Box | Absent]] = {}
        for box in boxes:
            if isinstance(box, LeftOut):
                left_out.add(box, of="box")
            else:
                self._waiting.setdefault(without_ending(box.image), []).append(box)
                self.count += 1

    def join(self, image: FoundImage, name: str) -> None:
        for key in (image.name, image.box_key):
            boxes = self._waiting.pop(without_ending(key), None) if key else None
            if boxes is not None:
                # A mask has a size of its own; a table may leave out the size for boxes.
                masks = (b for b in boxes if isinstance(b, Box) and b.segmentation is not None)
                first = next(masks, boxes[0])
                width, height = first.width, first.height
                if not (width and height):
                    width, height = image_size(image.path)
                self.joined += [replace(b, image=name, width=width, height=height) for b in boxes]
                return


def image_size(path: Path) -> tuple[int, int]:
    """Width and height from the file's header; (0, 0) if it cannot be read."""
    from PIL import Image

    try:
        header = read_wanted(path, ["Columns", "Rows"]).dataset
        return int(text_of(header, "Columns") or 0), int(text_of(header, "Rows") or 0)
    except NotDicomError:
        bad = (OSError, ValueError, Image.DecompressionBombError)
        with suppress(*bad), Image.open(path, formats=("PNG", "JPEG")) as picture:
            return picture.size
    except (ImageError, OSError, ValueError):
        pass
    return 0, 0
