"""A patient's films in order of time, and the earlier film to compare with."""

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
    image_id: str
    study_id: str
    view: str
    projection: Projection | None  # None if its view is unknown
    acquired: str | None  # ISO 8601, with a time if it is known
    days: int | None  # since the film that was asked about; negative if earlier


@dataclass(frozen=True, slots=True)
class Timeline:
    """A patient's films, the earliest first if their order is known."""

    patient_id: str
    films: tuple[Film, ...]
    reason: str | None  # why their order is unknown
    shifted: bool  # whether the dates are known to be shifted
    prior: str | None  # a film of the same projection from the latest earlier study with one

    @property
    def ordered(self) -> bool:
        return self.reason is None


def timeline(archive: Archive, image_id: str) -> Timeline:
    """The films of an indexed image's patient (NotFoundError; InputError: too many)."""
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
    """The film to compare with; if its study has several, one of exactly the same view."""
    last = [film for film in like if film.study_id == like[-1].study_id]
    return max(last, key=lambda film: film.view == view).image_id if last else None
