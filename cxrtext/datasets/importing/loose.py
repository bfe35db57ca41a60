"""Matches ids that a spreadsheet has changed to the ids of the films.

Spreadsheets drop leading zeros, append ``.0``, add an apostrophe or ``="…"``, cut digits off or
write an exponent instead; file names lose their letters.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal
from unicodedata import normalize

from cxrtext.errors import DataError

IdMatching = Literal["exact", "loose"]
SHORTEST_CUT = 12  # characters that a cut id must still have to be recognized

AS_TEXT = "give the column the format text, fill it in again and export it again"
_FORMULA = re.compile(r'="(.*)"')
_FLOAT = re.compile(r"(\d+)[.,]0*")
_EXPONENT = re.compile(r"(\d)(?:[.,](\d+))?E\+?(\d+)", re.IGNORECASE)
_DASH = re.compile("[\u2010-\u2015\u2212]")
_PARTS = re.compile(r"(\D*?)0*(\d.*)")


def lost_digits(text: str) -> bool:
    """Whether an id is a number with an exponent that has lost digits."""
    number = _EXPONENT.fullmatch(text.strip())
    return number is not None and int(number[3]) > len(number[2] or "")


def refuse_lost_digits(where: str, **ids: str) -> None:
    """Refuse ids that have `lost_digits`: such an id may stand for several."""
    for name, text in ids.items():
        if lost_digits(text):
            raise DataError(
                f"{where}: {name} is '{text}': a spreadsheet dropped its digits, and several ids "
                f"become one; {AS_TEXT}"
            )


def _parts(text: str) -> tuple[str, str]:
    """The part of an id before its number, and the rest, without what spreadsheets add."""
    plain = _DASH.sub("-", "".join(normalize("NFKC", text).split())).strip("{}")
    plain = found[1] if (found := _FORMULA.fullmatch(plain)) else plain.lstrip("'")
    plain = found[1] if (found := _FLOAT.fullmatch(plain)) else plain
    if (found := _EXPONENT.fullmatch(plain)) and not lost_digits(plain):
        plain = f"{found[1]}{found[2] or ''}"[: int(found[3]) + 1]
    found = _PARTS.fullmatch(plain.casefold())
    return (found[1], found[2]) if found else ("", plain.casefold())


def _damage(given: str, own: str) -> str:
    if _FORMULA.fullmatch(given):
        return "are formulas"
    if given.startswith("'"):
        return "begin with an apostrophe"
    if _EXPONENT.fullmatch(given):
        return "have an exponent"
    if _FLOAT.fullmatch(given):
        return "are decimal numbers"
    if own.startswith(given):
        return "are cut off"
    return "lost leading zeros" if own.lstrip("0") == given else "are written differently"


def written_twice(ids: Counter[str]) -> dict[str, str]:
    """Ids of one table that `_parts` makes equal to a more frequent one, with that one."""
    alike: dict[tuple[str, str], str] = {}
    ways = ((one, alike.setdefault(_parts(one), one)) for one, _ in ids.most_common() if one)
    return {one: first for one, first in ways if one != first}


class _Index:
    def __init__(self, own: Iterable[str]) -> None:
        self._by_number: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._sorted = sorted(own)
        for one in self._sorted:
            before, number = _parts(one)
            self._by_number[number].append((before, one))

    def merged(self, given: str) -> list[str]:
        """The ids that a spreadsheet would write like this one: without zeros, or to 15 digits."""
        before, number = _parts(given)
        place = bisect_left(self._sorted, given[:15]) if given.isdigit() else len(self._sorted)
        near = [own for own in self._sorted[place : place + 99] if own[:15] == given[:15]]
        rounded = [own for own in near if own.isdigit() and len(own) == len(given) > 15]
        return rounded + [own for other, own in self._by_number.get(number, []) if other == before]

    def find(self, given: str) -> list[str]:
        """The ids that this one may stand for."""
        before, number = _parts(given)
        some = self._by_number.get(number, [])
        equal = [own for other, own in some if other == before or not other or not before]
        if equal or len(given) < SHORTEST_CUT:
            return equal
        place = bisect_left(self._sorted, given)
        return [own for own in self._sorted[place : place + 2] if own.startswith(given)]


def match_ids(
    table: Path, what: str, given: Iterable[str], own: Iterable[str], matching: IdMatching,
    repeated: Iterable[str] = (),
) -> tuple[dict[str, str], str]:  # fmt: skip
    """The films' ids for changed ids of a table, and a note about them.

    Changed ids are recognized, but only mended with "loose".  Raises DataError if most ids differ
    without "loose", or if two ids would become one, also those of several reports (``repeated``).
    """
    own = set(own)
    distinct = [one for one in dict.fromkeys(given) if one]
    unknown = [one for one in distinct if one not in own]
    index, known = _Index(own), {*distinct}
    for one in repeated:
        for other in index.merged(one):
            if other not in known:
                raise DataError(
                    f"{table}: several reports have the {what} id '{one}', and none has "
                    f"the films' '{other}': a spreadsheet made them one; {AS_TEXT}"
                )
    if not unknown:
        return {}, ""
    for one in unknown:
        refuse_lost_digits(str(table), **{f"a {what} id": one})
    alike = {one: index.find(one) for one in unknown}
    alike = {one: some for one, some in alike.items() if some}
    if not alike:
        return {}, ""
    damages = Counter(_damage(one, some[0]) for one, some in alike.items())
    damage = damages.most_common(1)[0][0]
    example = next((one, some[0]) for one, some in alike.items() if _damage(one, some[0]) == damage)
    note = (
        f"{len(alike)} of {len(distinct)} {what} ids {damage}: '{example[0]}' in {table.name}, "
        f"'{example[1]}' in the films"
    )
    if matching != "loose":
        if len(alike) > len(distinct) - len(unknown):
            raise DataError(f"{table}: {note}; to join them anyway, give --ids loose")
        return {}, f"{note}; --ids loose joins them"
    mended: dict[str, str] = {}
    taken: dict[str, str] = {one: one for one in distinct if one in own}
    for one, some in alike.items():
        other = taken.setdefault(some[0], one)
        if len(some) > 1 or other.casefold() != one.casefold():
            both: Sequence[str] = some if len(some) > 1 else (other, one)
            raise DataError(
                f"{table}: with --ids loose two of one {what} id would become one: "
                f"'{both[0]}' and '{both[1]}'; correct the table"
            )
        mended[one] = some[0]
    return mended, f"{note}; joined"
