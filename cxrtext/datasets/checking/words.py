"""Sentences that every form of the report has."""

from cxrtext.datasets.checking.problems import Severity
from cxrtext.datasets.checking.report import CheckReport

PICTURES_LEFT_OUT = (
    "Pictures were left out on request: the pixels of a patient's image are protected data."
)
PROTECTED = (
    "These are pixels of the images that were checked, and protected data where those are: keep "
    "this page where the images may be kept, or leave the pictures out (--no-pictures)."
)

ROWS = "Rows of tables are counted from 1, the header left out."


def counted(count: int, what: str) -> str:
    """Return a number with a noun, as "1 error" or "2 errors"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def verdict(report: CheckReport) -> str:
    """Say in one sentence how the data are."""
    errors, warnings, notes = (report.count(severity) for severity in Severity)
    found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}, {counted(notes, 'note')}"
    if errors:
        return f"Mend the errors before training or evaluation ({found})."
    if warnings:
        return f"Usable; look at the warnings ({found})."
    return f"No error and no warning was found ({found})."
