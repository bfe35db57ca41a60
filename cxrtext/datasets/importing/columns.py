"""Which column of a table is what: by its own name, by what hospitals call it, or as given."""

from collections.abc import Collection, Mapping, Sequence
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
_NAMES = (*_WORDS, "accession", "issuer", "split", "status", "time")
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
    found = _given(path, given, headers)
    rest = [name for name in dict.fromkeys(headers) if name and name not in found.values()]
    exact = [name for name in _NAMES if name in rest and name not in found]
    found |= dict(zip(exact, exact, strict=True))
    # What was a table before there were guesses stays what it was.
    is_own = not {"image", "study_id"}.isdisjoint(exact) and not set(_TEXT).isdisjoint(exact)
    for name, words in _WORDS.items():
        like = [one for one in rest if one not in (*exact, *own) and _folded(one) in words]
        if name in found or not like:
            continue
        if len(like) == 1:
            found[name] = like[0]
        elif not is_own and name not in _MAY_BE_MISSED:
            raise DataError(
                f"{path}: {name} may be {' or '.join(like)}; say which: --columns {name}={like[0]}"
            )
    if "study_id" not in found and "accession" in found:
        found["study_id"] = found.pop("accession")
    # Beside a Beurteilung, a Befund is what was found.
    guessed = found.get("report") not in (None, "report", given.get("report"))
    if guessed and "impression" in found and "findings" not in found:
        found["findings"] = found.pop("report")
    if not {"image", "study_id"} & found.keys():
        raise DataError(_missing(path, "an image or a study", ("image", "study_id"), headers))
    if text and not set(_TEXT) & found.keys():
        raise DataError(_missing(path, "the text of a report", _TEXT, headers))
    return found


def _given(path: Path, given: Mapping[str, str], headers: Sequence[str]) -> dict[str, str]:
    for name, header in given.items():
        if name not in _NAMES:
            raise ConfigError(f"--columns {name}={header}: the name is one of {', '.join(_NAMES)}")
        if header not in headers:
            likest = max(headers, key=lambda one: _likeness(one, header), default="")
            said = found_columns(headers)
            hint = (
                f"; --columns {name}={likest}?" if said.endswith(likest) or likest in said else ""
            )
            raise DataError(f"{path}: there is no column '{header}' ({said}){hint}")
    return dict(given)


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, _folded(one), _folded(other)).ratio()


def _missing(path: Path, what: str, names: Sequence[str], headers: Sequence[str]) -> str:
    """That no column is one of some names, and which comes nearest."""
    near = [
        (_likeness(header, word), f"{name}={header}")
        for header in headers
        for name in names
        for word in _WORDS[name]
    ]
    said, (likeness, pair) = found_columns(headers), max(near, default=(0.0, ""))
    likely = likeness >= 0.6 and pair.partition("=")[2] in said
    hint = f"--columns {pair}?" if likely else f"name it: --columns {names[0]}=COLUMN"
    return f"{path}: no column is known to name {what} ({said}); {hint}"


def shown(columns: Mapping[str, str]) -> str:
    """A mapping as it is told; "" where every column has its own name."""
    if all(name == header for name, header in columns.items()):
        return ""
    return "columns: " + ", ".join(f"{name} = {header}" for name, header in columns.items())
