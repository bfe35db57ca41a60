"""Text to be scored, from whatever file, folder or stream holds it, read without being held."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import cast

from cxrtext.errors import DataError
from cxrtext.files import check_listed, sha256
from cxrtext.records.report_folder import open_folder, open_report_file
from cxrtext.records.rows import TableRows
from cxrtext.records.study import Rejected, Study
from cxrtext.records.text_lines import open_jsonl, open_stdin
from cxrtext.records.text_source import TextSource, choose_columns, read_items


def _open_table(path: Path) -> TextSource:
    """Open a CSV or Parquet table of reports or sentences; ids may be whole numbers."""
    table = TableRows(path)
    holds, wanted = choose_columns(str(path), table.columns)
    for name in wanted:
        if name in table.no_text:
            raise DataError(
                f"{path}: column '{name}' holds {table.no_text[name]}; write it as text"
            )
    if next(table.read(wanted), None) is None:
        raise DataError(f"{path}: the table has no rows")
    digest = partial(sha256, path)
    return TextSource(str(path), holds, digest, lambda: read_items(holds, table.read(wanted)))


_BY_ENDING = {
    ".csv": _open_table,
    ".parquet": _open_table,
    ".jsonl": open_jsonl,
    ".txt": open_report_file,
}
_REFUSED = {
    ".gz": "it is compressed; unpack it first (gunzip)",
    ".zip": "it is an archive; unpack it first",
    ".tsv": "save the table separated by commas, as .csv",
    ".xlsx": "save the table as .csv in UTF-8",
    ".xls": "save the table as .csv in UTF-8",
    ".json": "write JSON Lines, one object a line, as .jsonl",
}


def check_source(path: Path | str) -> None:
    """Refuse what :func:`open_source` cannot read by its place or name; nothing is opened.

    Raises:
        DataError: There is nothing at the path, or it has the ending of something else.
    """
    path = Path(path)
    if str(path) == "-" or path.is_dir():
        return
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not path.is_file():
        raise DataError(f"{path}: not a file or folder; pipe sentences in and give '-'")
    ending = path.suffix.lower()
    if ending not in _BY_ENDING:
        advice = _REFUSED.get(ending, "give .csv, .parquet, .jsonl, .txt, a folder, or '-'")
        raise DataError(f"{path}: a file ending in {ending or 'nothing'} is not read: {advice}")


def open_source(path: Path | str) -> TextSource:
    """Open reports or sentences to be read one by one.

    Args:
        path: A table (``.csv``, ``.parquet``, ``.jsonl``) with ``study_id`` and either ``report``
            or any of ``findings``, ``impression``, ``indication``, ``comparison``; a table with
            ``sentence``; a folder of ``.txt`` reports, or one of them; or "-" for sentences on
            standard input, one a line.

    Returns:
        The source.  What is wrong with single rows or files comes as a ``Rejected`` in its place; a
        report that is repeated under its study_id comes once.

    Raises:
        DataError: There is nothing at the path, or nothing in it can be read as text to score.
    """
    if str(path) == "-":
        return open_stdin()
    path = Path(path)
    try:
        check_source(path)
        opener = open_folder if path.is_dir() else _BY_ENDING[path.suffix.lower()]
        if opener is not _open_table:  # which checks for itself
            check_listed(path, DataError)
        return opener(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def open_reports(path: Path) -> Iterable[Study | Rejected]:
    """Open reports to be read one by one, as `open_source`; sentences are refused."""
    source = open_source(path)
    if source.holds != "reports":
        raise DataError(f"{path}: holds sentences; give reports with a study_id each")
    return cast("Iterable[Study | Rejected]", source)


def read_reports(path: Path) -> list[Study]:
    """Read reports whole, for instance the columns of a manifest; see `open_source`.

    Returns:
        One study a row, in the order of the table; texts may be empty.

    Raises:
        DataError: A column or an id is missing, or one study has two different reports.
    """
    studies = []
    for entry in open_reports(path):
        if isinstance(entry, Rejected):
            raise DataError(f"{path}: {entry.item}: {entry.reason}")
        studies.append(entry)
    return studies
