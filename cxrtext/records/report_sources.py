"""Opens text to be scored: a table, a folder, a file or standard input."""

import hashlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from cxrtext.errors import DataError
from cxrtext.files import check_listed, note_source, sha256
from cxrtext.records.columns import NO_COLUMNS, has_known_header
from cxrtext.records.decoding import LINE_LIMIT, NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.report_folder import open_folder, open_report_file
from cxrtext.records.rows import EXCEL, OTHER_BOOKS, TABLES, TableRows
from cxrtext.records.study import LeftOut, Sentence, Study, none_left_out
from cxrtext.records.text_source import TextSource, choose_columns, read_items

SOURCE, LABELS = "source", "labels"
"""The column of a report table that says where reports come from; its value if made from labels."""
MADE = (
    "the sentences of the reports were made of labels: retrieval and likelihoods of sentences are "
    "figures of made sentences"
)

NAME = "standard input"


def open_stdin() -> TextSource:
    """Read standard input to its end and open it as one sentence per line.

    A sentence's study_id is its line number; blank lines are skipped.
    """
    stream = getattr(sys.stdin, "buffer", None)
    data = b"" if stream is None else stream.read()
    if not data.strip():
        state = "closed" if stream is None else "empty"
        raise DataError(f"{NAME} is {state}; pipe sentences into it, one per line")

    def lines() -> Iterator[str]:
        return read_lines(open_text(io.BufferedReader(io.BytesIO(data)), NAME))

    def sentences() -> Iterator[Sentence | LeftOut]:
        for number, line in enumerate(lines(), 1):
            item, text = f"line {number}", line.strip()
            if len(line) > LINE_LIMIT:
                why = f"longer than {LINE_LIMIT:,} characters; give one sentence a line"
                yield LeftOut(item, why)
            elif undecoded(text):
                yield LeftOut(item, NOT_UTF8)
            elif text:
                yield Sentence(str(number), "sentence", 0, text)

    lines()  # refuses what is not text
    return TextSource(NAME, "sentences", lambda: hashlib.sha256(data).hexdigest(), sentences)


def _open_table(path: Path, columns: Mapping[str, str] = NO_COLUMNS) -> TextSource:
    table = TableRows(path, given=tuple(columns.values()))
    if "sentence" not in table.headers or columns:
        table = TableRows.known(path, columns)
    if "study_id" not in table.columns and "image" in table.columns:
        table = TableRows(path, {**table.names, "study_id": table.names["image"]})
    holds, wanted = choose_columns(str(path), table.columns)
    table.require_text(wanted)
    if next(table.read(wanted), None) is None:
        raise DataError(f"{path}: the table has no rows")
    digest = partial(sha256, path)
    return TextSource(str(path), holds, digest, lambda: read_items(holds, table.read(wanted)))


_REFUSED = {
    ".gz": "it is compressed; unpack it first (gunzip)",
    ".zip": "it is an archive; unpack it first",
    **dict.fromkeys(OTHER_BOOKS, EXCEL),
    **dict.fromkeys((".json", ".jsonl"), "write its rows as .csv or .parquet"),
}


def is_table(path: Path) -> bool:
    """Whether a path is a table, not messages, text or a folder (DataError for old workbooks).

    A ``.txt`` is a table if it has a known header with several cells, as in Excel's "Unicode text".
    """
    if path.suffix.lower() in OTHER_BOOKS:
        raise DataError(f"{path}: this workbook is not read; {EXCEL}")
    if not path.is_file() or path.suffix.lower() != ".txt":
        return path.is_file() and path.name.lower().endswith(TABLES)
    try:
        return has_known_header(TableRows(path).headers)
    except DataError:
        return False


def _opener(path: Path) -> Callable[[Path], TextSource]:
    if is_table(path):
        return _open_table
    if (ending := path.suffix.lower()) == ".txt":
        return open_report_file
    advice = _REFUSED.get(ending, "give .csv, .xlsx, .parquet, .txt, a folder, or '-'")
    raise DataError(f"{path}: a file ending in {ending or 'nothing'} is not read: {advice}")


def check_source(path: Path | str) -> None:
    """Refuse a path that :func:`open_source` cannot read, by its name and kind."""
    path = Path(path)
    if str(path) == "-" or path.is_dir():
        return
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not path.is_file():
        raise DataError(f"{path}: not a file or folder; pipe sentences in and give '-'")
    _opener(path)


def open_source(path: Path | str, columns: Mapping[str, str] = NO_COLUMNS) -> TextSource:
    """Open reports or sentences to be read one by one.

    A wrong row or file comes as a ``LeftOut`` in its place; a report repeated under the same
    study_id comes once.

    Args:
        path: A table (CSV, Excel, Parquet) with ``study_id`` and either ``report`` or any of
            ``findings``, ``impression``, ``indication``, ``comparison``; a table with ``sentence``;
            a folder of ``.txt`` reports, or one of them; or "-" for sentences on standard input,
            one per line.
        columns: A table's own headers by our names; the others are guessed.
    """
    if str(path) == "-":
        return open_stdin()
    path = Path(path)
    try:
        check_source(path)
        opener = open_folder if path.is_dir() else _opener(path)
        if opener is _open_table:
            return _open_table(path, columns)
        if columns:
            raise DataError(f"{path}: --columns only works with a table; leave it out")
        check_listed(path, DataError)
        note_source(path)
        return opener(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def open_reports(path: Path, columns: Mapping[str, str] = NO_COLUMNS) -> Iterable[Study | LeftOut]:
    """Open reports to be read one by one, like `open_source`; sentences are refused."""
    source = open_source(path, columns)
    if source.holds != "reports":
        raise DataError(f"{path}: holds sentences; give reports with a study_id each")
    return cast("Iterable[Study | LeftOut]", source)


def read_reports(path: Path) -> list[Study]:
    """Read all reports, for instance from the columns of a manifest; see `open_source`."""
    return list(none_left_out(path, open_reports(path)))


def made_of_labels(reports: Path | str | None) -> str:
    """:data:`MADE` if a report table says that any report was made from labels, else ""."""
    if not str(reports or "").lower().endswith(TABLES):
        return ""
    table = TableRows(Path(str(reports)))
    rows = table.read([SOURCE]) if SOURCE in table.columns else iter(())
    made = (not isinstance(row, LeftOut) and row[1][SOURCE] == LABELS for row in rows)
    return MADE if any(made) else ""
