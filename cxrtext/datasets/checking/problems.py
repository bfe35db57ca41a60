"""The kinds of problem that stop or bias a training, and those that were found in a data set."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cxrtext.images.source import shown
from cxrtext.page import Gallery
from cxrtext.records import CHEX5


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
    # tables
    Kind("no-reports", WARNING, "data sets without reports",
         "add reports.csv beside the manifest: training needs reports"),
    Kind("table-unreadable", ERROR, "tables that cannot be read", "do what the reason says"),
    Kind("row-wrong", ERROR, "rows that stop training and evaluation", "do what the reason says"),
    Kind("none-joined", ERROR, "tables of which no row belongs to an image",
         "see that the manifest and the table spell study_id alike"),
    # patients and splits
    Kind("patient-in-two-splits", ERROR, "patients in two splits",
         "keep all images of a patient in one split: figures on the others would be too good"),
    Kind("study-of-two-patients", ERROR, "studies of two patients",
         "give each study an id of its own: their reports would be mixed up"),
    Kind("no-patients", WARNING, "images without a patient_id",
      "add patient_id: without it each study counts as a patient, and splits may share patients"),
    Kind("empty-split", WARNING, "splits without an image",
         "keep some patients for validation (val) and for the final test (test)"),
    # single images
    Kind("image-missing", ERROR, "images that are not there",
         "copy the files to where the manifest says, or remove the rows"),
    Kind("image-unreadable", ERROR, "images that cannot be read",
         "do what the reason says, or remove the rows"),
    Kind("image-constant", ERROR, "images of one gray level only",
         "export the files again, or remove the rows: a model would learn sentences from nothing"),
    Kind("image-exposure", WARNING, "images that are almost blank, very dark or very bright",
         "look at them: the window, the depth or the inversion may be wrong"),
    Kind("view-lateral", WARNING, "lateral views",
         "remove the rows: models here are trained and read on frontal views"),
    Kind("image-shape", WARNING, "images of less than 64 pixels a side, or long and narrow",
         "look at them: they may be cut, or several in one; models see the center square"),
    Kind("looks-otherwise", NOTE, "images whose picture does not look like a frontal chest",
         "look at them: a small network guesses (lateral, turned, mirrored, inverted, other)"),
    Kind("not-admitted", WARNING, "DICOM files that import would leave out",
         "look at them, and remove the rows unless the header is wrong"),
    Kind("burned-in", WARNING, "images with text drawn into the picture, as their header says",
         "look at them: the text may name the patient, or tell a model what it should see"),
    # images that occur twice
    Kind("same-image-in-two-splits", ERROR, "images with the same content in two splits",
         "keep one of them: figures on the held-out images would be too good"),
    Kind("same-image-of-two-patients", ERROR, "images with the same content under two patients",
         "find whose image it is and remove the other row: one of them has a wrong report"),
    Kind("near-duplicates", WARNING,
         "pairs of images of two patients or splits that look almost the same",
         "look at them: the same image under two names makes figures too good"),
    # reports, labels and boxes
    Kind("report-without-sentence", WARNING, "reports without a sentence that describes the image",
         "see whether their headings are known: only findings, impression and conclusion are used"),
    Kind("study-without-report", WARNING, "studies with an image but no report",
         "add their reports; without one an image serves for evaluation only"),
    Kind("no-known-finding", ERROR,
         "tables of labels without any of the five findings that are evaluated",
         f"name the columns {', '.join(CHEX5)}"),
    Kind("label-one-sided", WARNING, "findings without a positive or without a negative study",
      "no figure can be computed for them; blank is not 0: fill in 0 where the finding is absent"),
    Kind("box-wrong", ERROR, "boxes and masks that cannot be used", "do what the reason says"),
    Kind("box-image-resized", WARNING,
         "boxes of images whose file has another size than the boxes were drawn for",
         "use the original images, or scale the boxes to the files"),
)
# fmt: on
KINDS = {kind.code: kind for kind in _KINDS}
EXAMPLES = 10  # examples kept of each problem
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
        return {
            "code": self.kind.code,
            "severity": str(self.kind.severity),
            "count": self.count,
        } | (named)


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

    def is_joined(self, what: str, rows: Collection[str], studies: Collection[str]) -> bool:
        """Whether any row of a table belongs to a study; notes where none does."""
        if rows and studies and set(studies).isdisjoint(rows):
            self.add("none-joined", f"{what}: {len(rows)} rows, {len(studies)} studies")
            return False
        return True

    def found(self) -> list[Problem]:
        """Errors first, and of these the most frequent."""
        order = list(Severity)
        return sorted(
            self._found.values(), key=lambda one: (order.index(one.kind.severity), -one.count)
        )


@dataclass(slots=True)
class CheckReport:
    data: str
    summary: dict[str, int] = field(default_factory=dict)  # counts by name, in order
    problems: list[Problem] = field(default_factory=list)  # what is wrong, the worst first
    galleries: list[Gallery] | None = None  # pictures; None where they were left out on request

    def count(self, severity: Severity) -> int:
        return sum(problem.kind.severity is severity for problem in self.problems)

    def has_failed(self, *, strict: bool = False) -> bool:
        return bool(self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON holds it, without pictures."""
        return {
            "data": self.data,
            **{f"{severity}s": self.count(severity) for severity in Severity},
            "summary": self.summary,
            "problems": [problem.as_dict() for problem in self.problems],
        }


def verdict(report: CheckReport) -> str:
    counts = {severity: report.count(severity) for severity in Severity}
    found = ", ".join(f"{n:,} {severity}{'' if n == 1 else 's'}" for severity, n in counts.items())
    if counts[Severity.ERROR]:
        return f"Fix the errors before training or evaluation ({found})."
    if counts[Severity.WARNING]:
        return f"Usable; look at the warnings ({found})."
    return f"No error and no warning was found ({found})."
