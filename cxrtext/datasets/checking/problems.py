"""Every kind of problem that a data set can have, and the problems that were found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cxrtext.images.source import shown
from cxrtext.records import CHEX5
from cxrtext.records.report_sources import MADE


class Severity(StrEnum):
    ERROR = "error"  # training or evaluation would fail, or their figures would lie
    WARNING = "warning"  # something is lost, or probably not what was meant
    NOTE = "note"  # worth knowing


@dataclass(frozen=True, slots=True)
class Kind:
    code: str  # its short name, for programs
    severity: Severity
    title: str  # what is wrong, in a few words
    advice: str  # what to do about it


ERROR, WARNING, NOTE = Severity
# fmt: off
_KINDS = (
    Kind("no-reports", WARNING, "data sets without reports",
         "add reports.csv beside the manifest: training needs reports"),
    # the manifest
    Kind("manifest-row", ERROR, "rows of the manifest that cannot be read",
         "fix the rows: quote cells that hold a comma or a line break, and save as UTF-8"),
    Kind("empty-image", ERROR, "rows without an image", "name the image file"),
    Kind("empty-study", ERROR, "rows without a study_id", "give each image its study"),
    Kind("image-listed-twice", ERROR, "images listed in two rows",
         "keep one row for each image file"),
    Kind("image-outside", ERROR, "images outside the manifest's folder",
         "move them into the folder, or allow it with --allow-outside"),
    Kind("unknown-split", ERROR, "rows whose split is not train, val or test",
         "use train, val or test; blank counts as train"),
    Kind("patient-in-two-splits", ERROR, "patients in two splits",
         "keep all images of a patient in one split: figures on the others would be too good"),
    Kind("study-of-two-patients", ERROR, "studies of two patients",
         "give each study an id of its own: their reports would be mixed up"),
    Kind("no-patients", WARNING, "images without a patient_id",
      "add patient_id: without it each study counts as a patient, and splits may share patients"),
    Kind("no-split", NOTE, "images without a split, which count as train",
         "add split (train, val, test), or train only"),
    Kind("empty-split", WARNING, "splits without an image",
         "keep some patients for validation (val) and for the final test (test)"),
    Kind("missing-metadata", NOTE, "columns of the manifest with blank cells",
         "fill them where the column serves as a filter or a condition"),
    # single images
    Kind("image-missing", ERROR, "images that are not there",
         "copy the files to where the manifest says, or remove the rows"),
    Kind("image-unreadable", ERROR, "images that cannot be read",
         "do what the reason says, or remove the rows"),
    Kind("image-constant", ERROR, "images of one gray level only",
         "export the files again, or remove the rows: a model would learn sentences from nothing"),
    Kind("image-blank", WARNING, "images that are almost blank",
         "look at them; export them again with another window, or remove the rows"),
    Kind("image-dark", WARNING, "images that are very dark",
         "look at them: the window, the depth or the inversion may be wrong"),
    Kind("image-bright", WARNING, "images that are very bright",
         "look at them: the window, the depth or the inversion may be wrong"),
    Kind("view-lateral", WARNING, "lateral views",
         "remove the rows: models here are trained and read on frontal views"),
    Kind("odd-shape", WARNING, "images much longer than wide or wider than long",
      "look at them: they may be lateral, cut, or several in one; models see the center square"),
    Kind("image-small", WARNING, "images of less than 64 pixels a side",
         "give larger copies: what radiologists describe cannot be seen in these"),
    Kind("looks-otherwise", NOTE, "images whose picture does not look like a frontal chest",
         "look at them: a small network guesses (lateral, turned, mirrored, inverted, other)"),
    Kind("not-admitted", WARNING, "DICOM files that import would leave out",
         "look at them, and remove the rows unless the header is wrong"),
    Kind("view-unknown", NOTE, "images without a view",
      "add a column view (PA, AP, LATERAL) where it is known, so that laterals can be left out"),
    Kind("view-differs", WARNING, "images whose header gives another view than the manifest",
         "see which one is right, and correct the manifest"),
    Kind("image-mirrored", NOTE, "images that their header says are stored mirrored",
         "they are shown with the patient's left at the right; look whether the header is right"),
    Kind("image-turned", NOTE, "images that their header says are stored turned",
         "they are shown upright; look whether the header is right"),
    Kind("pixels-not-square", NOTE, "images whose pixels are not square, as their header says",
         "they are shown with square pixels; nothing to do unless the spacing is wrong"),
    Kind("burned-in", WARNING, "images with text drawn into the picture, as their header says",
         "look at them: the text may name the patient, or tell a model what it should see"),
    # images that occur twice
    Kind("same-image-in-two-splits", ERROR, "images with the same content in two splits",
         "keep one of them: figures on the held-out images would be too good"),
    Kind("same-image-of-two-patients", ERROR, "images with the same content under two patients",
         "find whose image it is and remove the other row: one of them has a wrong report"),
    Kind("same-image-of-two-studies", WARNING, "images with the same content under two studies",
         "find which study it belongs to and remove the other row"),
    Kind("same-image-twice", NOTE, "images with the same content twice in a study",
         "keep one of them; the study counts twice in training"),
    Kind("near-duplicates", NOTE, "pairs of images that look almost the same",
         "look at them: copies in another size or contrast, or one patient the same day"),
    Kind("near-duplicates-apart", WARNING,
         "pairs of images of two patients or splits that look almost the same",
         "look at them: the same image under two names makes figures too good"),
    # reports
    Kind("reports-unusable", ERROR, "tables of reports that cannot be read",
         "do what the reason says"),
    Kind("report-row", ERROR, "rows of the reports that cannot be read, or contradict another",
         "do what the reason says; such rows stop training and evaluation"),
    Kind("report-unread", ERROR, "reports that could not be divided into sentences",
         "look at these rows; with less memory in use they may be read"),
    Kind("report-empty", WARNING, "reports without text",
         "fill them or remove the rows; nothing is learnt from them"),
    Kind("report-without-sentence", WARNING,
         "reports with text but no sentence that describes the image",
         "see whether their headings are known: only findings, impression and conclusion are used"),
    Kind("report-short", NOTE, "reports of one or two words",
         "see whether their texts were cut off"),
    Kind("report-long", WARNING, "reports of more than 1,500 words",
         "see whether several reports were joined into one"),
    Kind("report-repeated", NOTE, "reports whose text equals that of another study",
      "normal for short normal reports; otherwise see whether texts were joined to wrong studies"),
    Kind("reports-of-labels", NOTE, "tables of reports that were made of labels",
         f"know that {MADE}"),
    Kind("study-without-report", WARNING, "studies with an image but no report",
         "add their reports; without one an image serves for evaluation only"),
    Kind("report-without-study", NOTE, "reports of studies without an image",
         "normal for a table of all reports; otherwise see that both spell study_id alike"),
    Kind("no-report-joined", ERROR, "tables of reports in which no report belongs to an image",
         "see that study_id is spelt alike in the manifest and the reports"),
    # labels
    Kind("labels-unusable", ERROR, "tables of labels that cannot be read",
         "do what the reason says"),
    Kind("label-row", ERROR, "rows of the labels that cannot be read",
         "fix the rows: quote cells that hold a comma or a line break, and save as UTF-8"),
    Kind("no-known-finding", ERROR,
         "tables of labels without any of the five findings that are evaluated",
         f"name the columns {', '.join(CHEX5)}"),
    Kind("label-value", ERROR, "labels that are not 1, 0, -1 or blank",
         "use 1 present, 0 absent, -1 uncertain, or leave the cell blank"),
    Kind("labels-contradict", ERROR, "studies with two different rows of labels",
         "keep one row for each study; such a table stops training and evaluation"),
    Kind("labels-twice", NOTE, "studies with the same row of labels twice",
         "keep one row for each study"),
    Kind("label-one-sided", WARNING, "findings without a positive or without a negative study",
      "no figure can be computed for them; blank is not 0: fill in 0 where the finding is absent"),
    Kind("few-positives", WARNING, "findings with fewer than 5 positive studies in a split",
      "figures on them say little: take more data, or larger shares with import --split"),
    Kind("label-without-study", NOTE, "rows of labels of studies without an image",
         "normal for a table of all labels; otherwise see that both spell study_id alike"),
    Kind("study-without-label", NOTE, "studies without a row of labels",
         "normal outside the test split; otherwise see that both spell study_id alike"),
    Kind("no-label-joined", ERROR, "tables of labels in which no row belongs to an image",
         "see that study_id is spelt alike in the manifest and the labels"),
    # boxes
    Kind("boxes-unusable", ERROR, "files of boxes that cannot be read", "do what the reason says"),
    Kind("box-unreadable", ERROR, "boxes whose x, y, w, h are not four numbers",
         "correct or remove them"),
    Kind("mask-unreadable", ERROR, "masks (segmentation) that cannot be read",
         "do what the reason says"),
    Kind("box-size", ERROR, "boxes less than a pixel wide or high",
         "correct or remove them; a box is x, y, width, height, not two corners"),
    Kind("box-outside", ERROR, "boxes that reach outside their image",
         "correct them: in original pixels from the top left corner, as x, y, width, height"),
    Kind("box-without-image", ERROR, "boxes of images that are not in the manifest",
         "see that both name images alike, or remove them"),
    Kind("box-image-resized", WARNING,
         "boxes of images whose file has another size than the boxes were drawn for",
         "use the original images, or scale the boxes to the files"),
    Kind("box-without-phrase", WARNING, "boxes without a phrase",
      "add label_text, the sentence that the box illustrates: without it nothing can be grounded"),
)
# fmt: on
KINDS = {kind.code: kind for kind in _KINDS}
EXAMPLES = 5  # examples kept of each problem
SHOWN = 200  # longest example, in characters


@dataclass(slots=True)
class Problem:
    kind: Kind
    count: int = 0
    # the first few: file names and row numbers, never report text or names of people.
    examples: list[str] = field(default_factory=list)
    unnamed: int = 0  # how many of the count no example tells of

    def as_dict(self) -> dict[str, Any]:
        named = {"title": self.kind.title, "advice": self.kind.advice, "examples": self.examples}
        said = {"code": self.kind.code, "severity": str(self.kind.severity), "count": self.count}
        return said | named


def printable(text: str) -> str:
    """Return text on one line, without control characters, cut where it is long."""
    plain = shown(text)
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 1]}…"


class Problems:
    def __init__(self) -> None:
        self._found: dict[str, Problem] = {}

    def add(self, code: str, example: str = "", count: int = 1) -> None:
        """Count a problem by the code of its kind; nothing is noted where the count is 0."""
        if count < 1:
            return
        problem = self._found.setdefault(code, Problem(KINDS[code]))
        problem.count += count
        if example and len(problem.examples) < EXAMPLES:
            problem.examples.append(printable(example))
        else:
            problem.unnamed += count

    def add_unjoined(self, what: str, rows: Mapping[str, int], studies: Mapping[str, int]) -> None:
        """Count studies without a report or label, and the rows of those without a study."""
        if rows and studies and studies.keys().isdisjoint(rows):
            self.add(f"no-{what}-joined", f"{len(rows)} rows, {len(studies)} studies")
            return
        for study, row in studies.items():
            if study not in rows:
                self.add(f"study-without-{what}", f"row {row} of the manifest")
        for study, row in rows.items():
            if study and study not in studies:
                self.add(f"{what}-without-study", f"row {row} of the {what}s")

    def found(self) -> list[Problem]:
        """Errors first, and of these the most frequent."""
        order = list(Severity)
        return sorted(
            self._found.values(), key=lambda one: (order.index(one.kind.severity), -one.count)
        )
