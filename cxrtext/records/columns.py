"""Recognizes the columns of a table: by our name, by a hospital's name, or as the user says."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence, Set
from difflib import SequenceMatcher
from pathlib import Path
from types import MappingProxyType

from cxrtext.errors import ConfigError, DataError
from cxrtext.files.yaml_text import read_own

SECTION_COLUMNS = ("findings", "impression", "indication", "comparison")
"""Columns that each hold one section of a report."""

NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
HEADER_WITHIN = 20  # first rows, one of which may be the header

_NAME = re.compile(r"[^\W\d][\w /()%.,:;°²³µ*+#&'\"\[\]-]{0,39}(?<![.,:;])")


def _folded(name: str) -> str:
    """A name in capitals, without accents, signs, spaces and digits."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).upper()
    return "".join(c for c in plain if "A" <= c <= "Z")


_WORDS: dict[str, set[str]] = {
    name: {_folded(word) for word in (name, *words.split())}
    for name, words in read_own(Path(__file__).with_name("columns.yaml")).items()
}
"""Hospitals' names for each column, folded."""
_EVERY = set[str]().union(*_WORDS.values())
_TEXT = ("report", *SECTION_COLUMNS)
NAMES = (*_WORDS, "accession", "issuer", "split", "acquired", "dates")
_KEYS = ("image", "study_id")
ORDERING = ("status", "time", "section", "line", "version", "issuer")  # order a report's rows
_MAY_BE_MISSED = {"age", "sex", "date", *ORDERING}
_ELSE = "; for a command without --columns, import the table first"


def parse_columns(text: str) -> dict[str, str]:
    """Parse ``--columns``: headers by the name of their column (ConfigError)."""
    pairs = [one.partition("=") for one in text.split(",") if one.strip()]
    for name, equals, header in pairs:
        if not (name.strip() and equals and header.strip()):
            raise ConfigError(f"--columns: '{name}{equals}{header}' is not NAME=HEADER")
    return {name.strip(): header.strip() for name, _, header in pairs}


def header_place(rows: Sequence[Sequence[str]], given: Collection[str] = ()) -> tuple[int, int]:
    """Which of a table's first rows is the header (default: 0), and how many columns are known."""
    known = [sum(_folded(c) in _EVERY or c.strip() in given for c in row) for row in rows]
    return next(((place, n) for place, n in enumerate(known) if n > (place > 0)), (0, 0))


def has_known_header(headers: Sequence[str]) -> bool:
    """Whether at least two columns are known, one of them for images or studies."""
    folded = {_folded(name) for name in headers}
    keys = _WORDS["image"] | _WORDS["study_id"] | {"ACCESSION"}
    return len(folded & {*_EVERY, "ACCESSION"}) > 1 and not folded.isdisjoint(keys)


def found_columns(columns: Sequence[str]) -> str:
    # Without a header, the first line is report text and must not be quoted.
    if all(_NAME.fullmatch(name) or not name for name in columns):
        return f"columns found: {', '.join(filter(None, columns[:40])) or 'none'}"
    return f"{len(columns)} columns found, not all of them names; is the header missing?"


def called(name: str) -> str:
    """A header for a message, quoted only if it looks like a name."""
    return f"'{name}'" if _NAME.fullmatch(name) else "of one name"


def second(name: str, number: int = 2) -> str:
    """The name given to the second or a later column of the same name."""
    return f"{name} ({number})"


def match_columns(
    path: Path, headers: Sequence[str], given: Mapping[str, str], *, text: bool = True
) -> dict[str, str]:
    """The header of each known column, by our name.

    Args:
        path: The table, for messages.
        given: Headers that the user named; the others are guessed.
        text: Whether to refuse a table without report text.
    """
    for name, header in given.items():
        if name not in NAMES:
            hint = f"; or is it {header}={name}?" if header in NAMES else ""
            names = ", ".join(NAMES)
            raise ConfigError(f"--columns {name}={header}: the name is one of {names}{hint}")
        if header not in headers:
            raise _refused(path, f"there is no column '{header}'", headers, {name: {header}})
    rest = [name for name in dict.fromkeys(headers) if name and name not in given.values()]
    exact = {name: name for name in NAMES if name in rest and name not in given}
    for name in exact:
        if second(name) in headers:
            raise DataError(
                f"{path}: column '{name}' occurs more than once; say which: --columns "
                f'{name}={name} or "{name}={second(name)}"'
            )
    found = {**given, **exact}
    # A table with our own names is read by them, even if other headers are ambiguous.
    is_own = not exact.keys().isdisjoint(_KEYS) and not set(_TEXT).isdisjoint(exact)
    for name, words in _WORDS.items():
        like = [one for one in rest if one not in exact and _folded(one) in words]
        if name == "sex":  # "Geschlecht (1=m, 2=w)"
            like = like or [one for one in rest if _folded(one.partition("(")[0]) in words]
        if len(like) == 1 or (like and name == "time"):  # the first: a day before its time of day
            found.setdefault(name, like[0])
        elif like and name not in found and not is_own and name not in _MAY_BE_MISSED:
            choice = f"{name} may be {' or '.join(like)}; say which: --columns {name}={like[0]}"
            raise DataError(f"{path}: {choice}")
    if "study_id" not in found and "accession" in found:
        found["study_id"] = found.pop("accession")
    # If there is also a Beurteilung (impression), a Befund is the findings.
    guessed = found.get("report") not in (None, "report", given.get("report"))
    if guessed and "impression" in found and "findings" not in found:
        found["findings"] = found.pop("report")
    if found.keys().isdisjoint(_KEYS):
        what = "no column is known to name an image or a study"
        raise _refused(path, what, headers, {name: _WORDS[name] for name in _KEYS})
    if text and set(_TEXT).isdisjoint(found):
        what = "no column is known to hold report text"
        raise _refused(path, what, headers, {name: _WORDS[name] for name in _TEXT})
    return found


def _refused(
    path: Path, what: str, headers: Sequence[str], wanted: Mapping[str, Set[str]]
) -> DataError:
    """The error for a missing column, suggesting the header most like the wanted words."""
    said = found_columns(headers)
    near = [
        (SequenceMatcher(None, _folded(header), _folded(word)).ratio(), name, header)
        for name, words in wanted.items()
        for header in headers
        for word in words
    ]
    likeness, name, header = max(near, default=(0.0, "", ""))
    if likeness < 0.6 or header not in said:
        return DataError(
            f"{path}: {what} ({said}); name it: --columns {next(iter(wanted))}=COLUMN{_ELSE}"
        )
    return DataError(f"{path}: {what} ({said}); --columns {name}={header}{_ELSE}")


def shown(columns: Mapping[str, str]) -> str:
    """A mapping for a message; "" if every column has our name."""
    if all(name == header for name, header in columns.items()):
        return ""
    return "columns: " + ", ".join(f"{name} = {header}" for name, header in columns.items())
