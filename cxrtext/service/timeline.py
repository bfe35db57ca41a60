"""A patient's films in the order of time, and the one to compare another with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import takewhile

from cxrtext.errors import InputError
from cxrtext.index.order import TOO_MANY, DatedFilm, Projection, projection, studies_of
from cxrtext.index.search.archive import Archive
from cxrtext.records.cells import moment
from cxrtext.records.manifest import DATES


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
    prior: str | None  # of the latest earlier study that has one, a film of the same projection

    @property
    def ordered(self) -> bool:
        return self.reason is None


def timeline(archive: Archive, image_id: str) -> Timeline:
    """The films of an indexed image's patient (NotFoundError; InputError of too many)."""
    asked = archive.find(image_id)
    studies, reason = studies_of(archive, asked.patient_id)
    every = [one for study in studies for one in study]
    if reason == TOO_MANY:
        raise InputError(reason)
    now = None if reason else DatedFilm(asked).day
    films = tuple(_film(one, now) for one in every)
    shifted = any(one.said(DATES) == "shifted" for one in every)
    view = asked.metadata.get("view", "")
    earlier = () if reason else takewhile(lambda film: film.study_id != asked.study_id, films)
    like = [film for film in earlier if film.projection == projection(view)]
    return Timeline(asked.patient_id, films, reason, shifted, _prior(like, view))


def _film(one: DatedFilm, now: date | None) -> Film:
    view = one.image.metadata.get("view", "")
    days = (one.day - now).days if one.day and now else None
    acquired = moment(one.dated) or None
    return Film(one.image.image, one.image.study_id, view, projection(view), acquired, days)


def _prior(like: Sequence[Film], view: str) -> str | None:
    """The film to compare with; of several in its study one of the very same view goes first."""
    last = [film for film in like if film.study_id == like[-1].study_id]
    return max(last, key=lambda film: film.view == view).image_id if last else None
