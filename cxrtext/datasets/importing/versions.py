"""Versions of a report, and which of them counts.

Corrected beats final, final beats preliminary, and within a status the latest counts.  Addenda are
appended in the order of their times.  A withdrawn report leaves none; if only an addendum was
withdrawn, only the addenda go.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from cxrtext.datasets.admission.words import plain_words
from cxrtext.records import LeftOut, Study
from cxrtext.records.cells import TIME_DIGITS


class Status(IntEnum):
    """How far a report has come, the highest last."""

    UNKNOWN = 0
    PRELIMINARY = 1
    FINAL = 2
    CORRECTED = 3
    WITHDRAWN = 4


_WORDS = {
    Status.PRELIMINARY: "P PRELIMINARY PRELIM PARTIAL R REGISTERED DRAFT A I S VORLAUFIG ENTWURF "
    "DIKTIERT PROVISOIRE PROVISIONAL PRELIMINAR PROVVISORIO PROVISORIO VOORLOPIG BORRADOR",
    Status.FINAL: "F FINAL COMPLETE VERIFIED SIGNED ORIGINAL REPORT BEFUND FREIGEGEBEN ENDGULTIG "
    "VIDIERT UNTERSCHRIEBEN DEFINITIF VALIDE SIGNE DEFINITIVO FIRMADO VALIDADO DEFINITIEF INFORME",
    Status.CORRECTED: "C CORRECTED AMENDED CORRECTION REVISED KORRIGIERT CORRIGE CORREGIDO",
    Status.WITHDRAWN: "X D W CANCELLED CANCELED WITHDRAWN DELETED STORNIERT ANNULE ANULADO",
}
_STATUS = {word: status for status, words in _WORDS.items() for word in words.split()}
_ADDENDUM = {"ADDENDUM", "APPENDED", "ADD", "NACHTRAG", "ZUSATZ", "ERGANZUNG", "COMPLEMENT"}


@dataclass(frozen=True, slots=True)
class ReportVersion:
    item: str  # where it stands: "row 17", or the relative path of a file
    study: str = ""  # the study's UID, or whatever id a table uses
    accession: str = ""
    image: str = ""  # the path of its film, if a table names both study and image
    issuer: str = ""  # of the accession number
    patient: str = ""  # with its issuer; "" if the source does not say
    status: Status = Status.UNKNOWN
    time: str = ""  # digits of year, month, day, hour, minute, second, as many as are known
    addendum: bool = False
    part: tuple[str, int] = ("", 0)  # section and line, if it is only a part of the report
    report: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> tuple[str, ...]:
        """All its text, with plain spaces."""
        return tuple(" ".join(t.split()) for t in (self.report, *self.sections.values()) if t)


def of_study(study: Study) -> ReportVersion:
    """A version from a source without status and time."""
    return ReportVersion(
        f"report {study.row}", study.study_id, report=study.report, sections=study.sections
    )


def read_status(text: str) -> tuple[Status, bool]:
    """The status that a word names, and whether the word means an addendum."""
    word = plain_words(text)
    if word in _ADDENDUM:
        return Status.FINAL, True
    return _STATUS.get(word, Status.UNKNOWN), False


def whole(rows: Iterable[ReportVersion | LeftOut]) -> Iterator[ReportVersion | LeftOut]:
    """Join rows that are sections or lines of one report; others stay as they are."""
    parts = defaultdict[tuple[object, ...], dict[tuple[object, ...], ReportVersion]](dict)
    for one in rows:
        if isinstance(one, LeftOut) or one.part == ("", 0):
            yield one
            continue
        key = one.study, one.accession, one.issuer, one.patient, one.status, one.time, one.addendum
        parts[key].setdefault((one.part, one.texts), one)
    for some in parts.values():
        lines = sorted(some.values(), key=lambda one: one.part[1])
        if not 1 < len(lines) == len({one.part for one in lines}) or lines[0].sections:
            yield from lines
            continue
        texts: dict[str, str] = {}
        for one in lines:
            before = texts.get(one.part[0], one.part[0] and f"{one.part[0]}:")
            texts[one.part[0]] = f"{before}\n{one.report}".strip()
        yield replace(lines[0], report="\n".join(texts.values()))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The report of a study, and what became of its other versions."""

    report: ReportVersion | None
    addenda: Sequence[ReportVersion] = ()
    replaced: Sequence[tuple[ReportVersion, str]] = ()  # versions that do not count, and why
    again: int = 0  # versions that repeat another


def _order(version: ReportVersion) -> tuple[int, str]:
    return version.status, version.time.ljust(TIME_DIGITS, "0")


def choose(versions: Sequence[ReportVersion], *, arrived: bool = False) -> Chosen:
    """Choose the version that counts; with equal status and time, the first.

    If versions are in the order they ``arrived`` in, the last one instead.
    """
    if arrived:
        versions = versions[::-1]
    distinct: dict[tuple[bool, Status, tuple[str, ...]], ReportVersion] = {}
    for version in versions:
        key = (version.addendum, version.status, version.texts)
        known = distinct.setdefault(key, version)
        if _order(version) > _order(known):
            distinct[key] = version
    again = len(versions) - len(distinct)
    whole = [v for v in distinct.values() if not v.addendum and v.status != Status.WITHDRAWN]
    withdrawn = [v for v in distinct.values() if v.status == Status.WITHDRAWN]
    addenda = [v for v in distinct.values() if v.addendum and v.status != Status.WITHDRAWN]
    if arrived:
        addenda.reverse()
    place = {id(version): number for number, version in enumerate(versions)}

    def withdraws(one: ReportVersion, other: ReportVersion) -> bool:
        if one.time != other.time and other.time.startswith(one.time):  # only a day, or no time
            return not arrived or place[id(one)] < place[id(other)]
        return one.time >= other.time

    gone: list[ReportVersion] = []
    for one in withdrawn:
        before = [v for v in (*whole, *addenda) if withdraws(one, v)]
        added = [v for v in before if v.addendum and one.addendum]
        gone += [v for v in added or before if v not in gone]
    whole, addenda = ([v for v in some if v not in gone] for some in (whole, addenda))
    replaced = [*((v, "withdrawn") for v in gone), *((v, "withdraws") for v in withdrawn)]
    if not whole and not addenda:
        return Chosen(None, (), replaced, again)
    best = max(whole, key=_order) if whole else addenda.pop(0)
    rest = [(v, _why(v, best)) for v in whole if v is not best]
    found = _appended(best, addenda)
    return replace(found, replaced=[*rest, *found.replaced, *replaced], again=again)


def _appended(best: ReportVersion, addenda: Sequence[ReportVersion]) -> Chosen:
    text = " ".join(best.texts)
    longer = [one for one in addenda if text and text in " ".join(one.texts)]
    if longer:  # a later copy of the report that already has the addendum
        whole = max(longer, key=_order)
        found = _appended(whole, [one for one in addenda if one is not whole])
        return replace(
            found, replaced=[(best, "a report with its addendum holds it"), *found.replaced]
        )
    held = [one for one in addenda if " ".join(one.texts) in text]
    new = sorted((one for one in addenda if one not in held), key=lambda one: one.time)
    return Chosen(best, new, [(one, "an addendum that the report holds") for one in held])


def _why(version: ReportVersion, best: ReportVersion) -> str:
    if version.status < best.status:
        return f"{version.status.name.lower()}, replaced by a {best.status.name.lower()} one"
    return "replaced by a later one" if version.time < best.time else UNDECIDED


UNDECIDED = "a second report of one study, and nothing says which is later"


def whole_text(chosen: Chosen) -> tuple[str, Mapping[str, str]]:
    """The report and its sections, with the addenda at the end."""
    if chosen.report is None:
        return "", {}
    report, sections = chosen.report.report, dict(chosen.report.sections)
    added = "\n\n".join(f"ADDENDUM:\n{_flat(one)}" for one in chosen.addenda)
    if not added:
        return report, sections
    if report or not sections:
        return f"{report.rstrip()}\n\n{added}".lstrip(), sections
    last = next((name for name in ("impression", "findings") if sections.get(name)), "")
    name = last or next(iter(sections))
    return report, {**sections, name: f"{sections[name].rstrip()}\n\n{added}"}


def _flat(version: ReportVersion) -> str:
    parts = [f"{name.upper()}: {text}" for name, text in version.sections.items() if text]
    return "\n".join(filter(None, (version.report.strip(), *parts)))
