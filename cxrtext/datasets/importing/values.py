"""What the cells of a set say, in the spellings of devices and of sets: views, ages, ids, labels.

What is wrong with a cell ends the reading of its image by a :class:`LeftOutError`.
"""

from collections.abc import Iterable, Mapping

from cxrtext.datasets.admission.views import LATERAL, OTHER, read_view
from cxrtext.datasets.importing.reading import LeftOutError
from cxrtext.records import LeftOut
from cxrtext.records.labels import CHEXPERT, VALUES

NO_VIEW = "no view information"


def reject(item: str, reason: str) -> LeftOutError:
    """What to raise about an image whose row or file is wrong."""
    return LeftOutError(LeftOut(item, reason))


def frontal_view(item: str, *texts: str) -> str:
    """The view that the first text with an answer names; "" where none has one."""
    view = next((view for view in map(read_view, texts) if view), "")
    if view in (LATERAL, OTHER):
        raise LeftOutError(LeftOut(item, what=view))
    return view


def years(text: str) -> str:
    """An age in whole years: "058Y", "58.0" and "58" are 58, "007M" is 0; "" where it is none."""
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "Y")
    number = number.partition(".")[0]
    if not (number.isascii() and number.isdigit() and len(number) <= 3):
        return ""
    per_year = {"Y": 1, "M": 12, "W": 52, "D": 365}.get(unit.upper())
    return "" if per_year is None else str(int(number) // per_year)


def sex(text: str) -> str:
    """M, F or O, from a letter or a word; "" where it is none of these."""
    letter = text[:1].upper()
    return letter if letter in ("M", "F", "O") else ""


def findings_of(columns: Iterable[str]) -> tuple[str, ...]:
    """Those of the 14 CheXpert columns that a table has."""
    present = set(columns)
    return tuple(name for name in CHEXPERT if name in present)


def label_values(item: str, row: Mapping[str, str], findings: Iterable[str]) -> dict[str, str]:
    """The labels of a row as "1", "0", "-1" or ""."""
    labels = {}
    for name in findings:
        text = row.get(name, "")
        if text not in VALUES:
            raise reject(item, f"{name}: a label is 1, 0, -1 or blank; fix the cell")
        value = VALUES[text]
        labels[name] = "" if value is None else str(value)
    return labels


def check_ids(item: str, study_id: str, patient_id: str) -> None:
    """Refuse the ids of a row or a file."""
    if not study_id:
        raise reject(item, "no study id; give every image one")
    for name, value in (("study", study_id), ("patient", patient_id)):
        if not value.isprintable() or len(value) > 200:
            raise reject(item, f"its {name} id is no plain text; fix it")
