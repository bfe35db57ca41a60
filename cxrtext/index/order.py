"""A patient's studies in order of time, or in one line why their order is unknown.

The time of a film is the column ``days_since_first``, else ``acquired``, else ``date``.  Sets that
number a patient's films (``follow_up``) have an order without days.  Dates that were shifted by
different numbers of days give a false order: no order is given if a header, the dates within a
study, or the ages show this.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Literal

from cxrtext.datasets.admission.views import FRONTAL, LATERAL, read_view
from cxrtext.index.search.archive import Archive
from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.records.cells import read_time
from cxrtext.records.manifest import ACQUIRED, DATES, DAYS, FOLLOW_UP
from cxrtext.records.numbers import read_number

MOST_FILMS = 500
TOO_MANY = f"more than {MOST_FILMS} images have the patient_id of this one: it names no patient"
ORIGIN = datetime(1900, 1, 1)
_AGE_TOP = 89  # higher ages are often all written as one value
_MODIFIED = (
    "dates were modified, and it is unknown whether all of this patient's by the same number of "
    "days; if so, write 'shifted' into the column dates"
)


class DatedFilm:
    """An image with its time, as the known digits of year, month, day and hour."""

    def __init__(self, image: IndexedImage) -> None:
        self.image = image
        self.dated = read_time(self.said(ACQUIRED)) or read_time(self.said("date"))
        self.digits = _counted(self.said(DAYS)) or self.dated
        self.day = _day(self.digits)
        self.number = int(number) if (number := self.said(FOLLOW_UP)).isdecimal() else None

    def said(self, column: str) -> str:
        return self.image.metadata.get(column, "").strip().lower()


def _counted(days: str) -> str:
    """Days since the first study as the digits of a time that is no real date."""
    try:
        time = ORIGIN + timedelta(days=read_number(days, 0, 100_000))
    except ValueError:
        return ""
    return time.strftime("%Y%m%d%H%M%S" if "." in days else "%Y%m%d")


def _day(digits: str) -> date | None:
    try:  # strptime takes thirty times as long
        return datetime.fromisoformat(f"{digits[:8]}T{digits[8:] or '00'}").date()
    except ValueError:
        return None


Projection = Literal["frontal", "lateral", "other"]


def projection(view: str) -> Projection | None:
    """Frontal, lateral or other, from a ``view`` column; None if it does not say."""
    read = read_view(view)
    if read in FRONTAL:
        return "frontal"
    return None if not read else "lateral" if read == LATERAL else "other"


Studies = list[list[DatedFilm]]
"""A patient's studies, each with its films."""


def studies_of(archive: Archive, patient_id: str) -> tuple[Studies, str | None]:
    """An indexed patient's studies, the earliest first, and why their order is unknown, or None.

    A patient with too many images does not get all of them.
    """
    images = archive.catalogue.of_patient(patient_id, MOST_FILMS + 1)
    of_study: dict[str, list[DatedFilm]] = defaultdict(list)
    for image in images:
        of_study[image.study_id].append(DatedFilm(image))
    studies = list(of_study.values())
    reason = None if _are_numbered(studies) else _why_unordered(studies)
    if reason is None:  # numbered films have no digits
        studies.sort(key=lambda study: (min(one.digits for one in study), study[0].number or 0))
    return [sorted(study, key=lambda one: one.digits) for study in studies], reason


def _are_numbered(studies: Studies) -> bool:
    """Whether no film has a date, and each study has one number of its own."""
    every = [one for study in studies for one in study]
    numbers = {one.number for one in every}
    pairs = {(one.image.study_id, one.number) for one in every}
    return (
        len(studies) > 1
        and None not in numbers
        and len(pairs) == len(numbers) == len(studies)
        and not any(one.digits for one in every)
    )


def _why_unordered(studies: Studies) -> str | None:
    """Why dates give no order of a patient's studies, or None if they do."""
    every = [one for study in studies for one in study]
    if len(every) > MOST_FILMS:
        return TOO_MANY
    if len(studies) < 2:
        return None
    said = {one.said(DATES) for one in every}
    if "removed" in said:
        return "the dates of this patient's studies were removed"
    if "modified" in said:
        return _MODIFIED
    if "shifted" in said and len(said) > 1:
        return "some of this patient's dates were shifted, and some not"
    if missing := [one for one in every if one.day is None]:
        years = all(len(one.digits) == 4 for one in missing)
        what = "only the year is known" if years else "no day is known"
        return f"{what} of {len(missing)} of {len(every)} films; import with --keep {DAYS}"
    return _contradiction(studies, every) or _tie(studies)


def _contradiction(studies: Studies, every: Sequence[DatedFilm]) -> str | None:
    """How the dates themselves show that they were shifted differently, or None."""
    for study in studies:
        days = [one.day for one in study if one.day]
        if (apart := (max(days) - min(days)).days) > 1:
            return f"films of one study are dated {apart} days apart: dates were shifted unequally"
    ages = [
        (one.day, int(one.said("age"))) for one in every if one.day and one.said("age").isdigit()
    ]
    young = sorted(pair for pair in ages if pair[1] < _AGE_TOP)
    for day, age in young[1:]:
        years, older = (day - young[0][0]).days / 365.25, age - young[0][1]
        if abs(older - years) > 1.5:  # both are whole years or dates: less than 1 is not an error
            return (
                f"dates {years:.1f} years apart go with ages {older} years apart: dates were "
                "shifted unequally, or an age is wrong"
            )
    return None


def _tie(studies: Studies) -> str | None:
    begun = sorted(min(one.digits for one in study) for study in studies)
    if any(other.startswith(one) for one, other in pairwise(begun)):
        return "two studies are of one day, and no time says which came first"
    return None
