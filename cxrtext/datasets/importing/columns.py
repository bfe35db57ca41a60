"""Which column of a table is what: by its own name, by what hospitals call it, or as given."""

from collections.abc import Collection, Mapping, Sequence, Set
from difflib import SequenceMatcher
from pathlib import Path

import yaml

from cxrtext.datasets.admission.words import plain_words
from cxrtext.errors import ConfigError, DataError
from cxrtext.records.rows import EXCEL, TABLES, WORKBOOKS, TableRows, found_columns
from cxrtext.records.text_source import SECTION_COLUMNS


def _folded(name: str) -> str:
    return plain_words(name).replace(" ", "")


_WORDS: dict[str, set[str]] = {
    name: {_folded(word) for word in (name, *words.split())}
    for name, words in yaml.safe_load(
        Path(__file__).with_name("columns.yaml").read_text(encoding="utf-8")
    ).items()
}
"""What columns are called, by their own names."""
_TEXT = ("report", *SECTION_COLUMNS)
_NAMES = (*_WORDS, "accession", "issuer", "split", "status", "time", "acquired", "dates")
_KEYS = {"image", "study_id"}
_MAY_BE_MISSED = {"age", "sex", "date"}


def is_table(path: Path) -> bool:
    """Whether a path names a table, and not messages, text or a folder (DataError: a workbook)."""
    if path.suffix.lower() in WORKBOOKS:
        raise DataError(f"{path}: a workbook is not read; {EXCEL}")
    return path.is_file() and path.name.lower().endswith(TABLES)


def table_columns(
    path: Path, given: Mapping[str, str], *, text: bool = True, own: Collection[str] = ()
) -> dict[str, str]:
    """The header of each column that is known, by its own name; only the first line is read.

    Args:
        given: What the user says of columns; the others are guessed.
        text: Whether a table without report text is refused.
        own: Headers that are not to be taken for others: metadata that are kept under them.
    """
    headers = [name.strip() for name in TableRows(path).columns]
    for name, header in given.items():
        if name not in _NAMES:
            raise ConfigError(f"--columns {name}={header}: the name is one of {', '.join(_NAMES)}")
        if header not in headers:
            raise _refused(path, f"there is no column '{header}'", headers, {name: {header}})
    rest = [name for name in dict.fromkeys(headers) if name and name not in given.values()]
    exact = {name: name for name in _NAMES if name in rest and name not in given}
    found = {**given, **exact}
    # What was a table before there were guesses stays what it was.
    is_own = not _KEYS.isdisjoint(exact) and not set(_TEXT).isdisjoint(exact)
    for name, words in _WORDS.items():
        like = [one for one in rest if one not in (*exact, *own) and _folded(one) in words]
        if len(like) == 1:
            found.setdefault(name, like[0])
        elif like and name not in found and not is_own and name not in _MAY_BE_MISSED:
            choice = f"{name} may be {' or '.join(like)}; say which: --columns {name}={like[0]}"
            raise DataError(f"{path}: {choice}")
    if "study_id" not in found and "accession" in found:
        found["study_id"] = found.pop("accession")
    # Beside a Beurteilung, a Befund is what was found.
    guessed = found.get("report") not in (None, "report", given.get("report"))
    if guessed and "impression" in found and "findings" not in found:
        found["findings"] = found.pop("report")
    if _KEYS.isdisjoint(found):
        what = "no column is known to name an image or a study"
        raise _refused(path, what, headers, {name: _WORDS[name] for name in _KEYS})
    if text and set(_TEXT).isdisjoint(found):
        what = "no column is known to hold report text"
        raise _refused(path, what, headers, {name: _WORDS[name] for name in _TEXT})
    return found


def _refused(
    path: Path, what: str, headers: Sequence[str], wanted: Mapping[str, Set[str]]
) -> DataError:
    """That a column is missing, with the header that is nearest to some words, by its name."""
    said = found_columns(headers)
    near = [
        (SequenceMatcher(None, _folded(header), _folded(word)).ratio(), name, header)
        for name, words in wanted.items()
        for header in headers
        for word in words
    ]
    likeness, name, header = max(near, default=(0.0, "", ""))
    if likeness < 0.6 or header not in said:
        return DataError(f"{path}: {what} ({said}); name it: --columns {min(wanted)}=COLUMN")
    return DataError(f"{path}: {what} ({said}); --columns {name}={header}?")


def shown(columns: Mapping[str, str]) -> str:
    """A mapping as it is told; "" where every column has its own name."""
    if all(name == header for name, header in columns.items()):
        return ""
    return "columns: " + ", ".join(f"{name} = {header}" for name, header in columns.items())
