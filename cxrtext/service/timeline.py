"""A patient's films in the order of time, or in one line why there is no such order.

The time of a film is the column ``acquired``, else ``date``.  Sets without dates that say which of
a patient's films each is (``follow_up``) have an order without days.  Dates that were shifted, but
not by one number of days for all of a patient's, put films into a false order: none is given where
a header, the dates within a study, or the ages beside them say so.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise, takewhile
from typing import Literal

from cxrtext.datasets.admission.views import FRONTAL, LATERAL, read_view
from cxrtext.datasets.importing.reading import moment
from cxrtext.datasets.importing.versions import read_time
from cxrtext.errors import InputError
from cxrtext.index import IndexedImage
from cxrtext.index.search.archive import Archive
from cxrtext.records.manifest import ACQUIRED, DATES, FOLLOW_UP

MOST_FILMS = 500
_AGE_TOP = 89  # ages above it are often all written as one
_MODIFIED = (
    "dates were modified, and nothing says whether all of this patient's by as many days; if they "
    "were, write 'shifted' into the column dates"
)

Projection = Literal["frontal", "lateral", "other"]


@dataclass(frozen=True, slots=True)
class Film:
    """A film among those of its patient."""

    image_id: str
    study_id: str
    view: str
    projection: Projection | None  # None where its view is not known
    acquired: str | None  # as ISO 8601 has it, with a time where one is known
    days: int | None  # from the film that was asked about, negative where earlier


@dataclass(frozen=True, slots=True)
class Timeline:
    """A patient's films, the earliest first where they are in order."""

    patient_id: str
    films: tuple[Film, ...]
    reason: str | None  # why they are in no order
    shifted: bool  # whether the dates are known not to be the true ones
    prior: str | None  # of the latest earlier study a film of the same projection

    @property
    def ordered(self) -> bool:
        return self.reason is None


class _Dated:
    """An image with its time, as digits of the year, month, day and hour, those that are known."""

    def __init__(self, image: IndexedImage) -> None:
        self.image = image
        self.digits = read_time(self.said(ACQUIRED)) or read_time(self.said("date"))
        found = moment(self.digits) if len(self.digits) >= 8 else ""
        self.day: date | None = datetime.fromisoformat(found).date() if found else None
        self.number = int(number) if (number := self.said(FOLLOW_UP)).isdecimal() else None

    def said(self, column: str) -> str:
        return self.image.metadata.get(column, "").strip().lower()


_Studies = dict[str, list[_Dated]]


def timeline(archive: Archive, image_id: str) -> Timeline:
    """The films of an indexed image's patient (NotFoundError; InputError of too many)."""
    asked = archive.find(image_id)[1]
    images: list[IndexedImage] = []
    for part in archive.parts:
        images += part.catalogue.of_patient(asked.patient_id, MOST_FILMS + 1 - len(images))
    if len(images) > MOST_FILMS:
        raise InputError(
            f"more than {MOST_FILMS} images have the patient_id of this one: it names no patient"
        )
    studies: _Studies = defaultdict(list)
    for image in images:
        studies[image.study_id].append(_Dated(image))
    ordered = list(studies.values())
    reason = None if _are_numbered(studies) else _why_unordered(studies)
    if reason is None:  # of numbered films no digits are known
        ordered.sort(key=lambda study: (min(one.digits for one in study), study[0].number or 0))
    now = None if reason else _Dated(asked).day
    films = tuple(
        _film(one, now) for study in ordered for one in sorted(study, key=lambda one: one.digits)
    )
    shifted = any(one.said(DATES) == "shifted" for study in ordered for one in study)
    prior = None if reason else _prior(films, asked)
    return Timeline(asked.patient_id, films, reason, shifted, prior)


def _film(one: _Dated, now: date | None) -> Film:
    view = one.image.metadata.get("view", "")
    days = (one.day - now).days if one.day and now else None
    acquired = moment(one.digits) if one.day else None
    return Film(one.image.image, one.image.study_id, view, projection(view), acquired, days)


def projection(view: str) -> Projection | None:
    """Frontal, lateral or another, by what a ``view`` column says; None where it does not."""
    read = read_view(view)
    if read in FRONTAL:
        return "frontal"
    return None if not read else "lateral" if read == LATERAL else "other"


def _prior(films: Sequence[Film], asked: IndexedImage) -> str | None:
    """The film to compare with; of several in its study one of the very same view goes first."""
    view = asked.metadata.get("view", "")
    earlier = takewhile(lambda film: film.study_id != asked.study_id, films)
    like = [film for film in earlier if film.projection == projection(view)]
    last = [film for film in like if film.study_id == like[-1].study_id]
    return max(last, key=lambda film: film.view == view).image_id if last else None


def _are_numbered(studies: _Studies) -> bool:
    """Whether no film has a date, and each of one study a number that no other study's has."""
    every = [one for study in studies.values() for one in study]
    numbers = {one.number for one in every}
    return (
        len(studies) > 1
        and None not in numbers
        and len(numbers) == len(studies)
        and not any(one.digits for one in every)
    )


def _why_unordered(studies: _Studies) -> str | None:
    """Why dates give no order of a patient's studies; None where they do."""
    if len(studies) < 2:
        return None
    every = [one for study in studies.values() for one in study]
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
        return f"{what} of {len(missing)} of {len(every)} films; import with --keep acquired"
    return _contradiction(studies, every) or _tie(studies)


def _contradiction(studies: _Studies, every: Sequence[_Dated]) -> str | None:
    """How the dates themselves show that they were not shifted alike."""
    for study in studies.values():
        days = [one.day for one in study if one.day]
        if (apart := (max(days) - min(days)).days) > 1:
            return f"films of one study are dated {apart} days apart: dates were shifted unequally"
    ages = [
        (one.day, int(one.said("age"))) for one in every if one.day and one.said("age").isdigit()
    ]
    young = sorted(pair for pair in ages if pair[1] < _AGE_TOP)
    for day, age in young[1:]:
        years, older = (day - young[0][0]).days / 365.25, age - young[0][1]
        if abs(older - years) > 1.5:  # both are whole years or dates: less than 1 is no error
            return (
                f"dates {years:.1f} years apart go with ages {older} years apart: dates were "
                "shifted unequally, or an age is wrong"
            )
    return None


def _tie(studies: _Studies) -> str | None:
    begun = sorted(min(one.digits for one in study) for study in studies.values())
    if any(other.startswith(one) for one, other in pairwise(begun)):
        return "two studies are of one day, and no time says which came first"
    return None
