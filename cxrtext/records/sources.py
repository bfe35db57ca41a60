"""Text to be scored, from whatever file, folder or stream holds it, read without being held."""

from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import check_listed
from cxrtext.records.rejects import BadItem
from cxrtext.records.report_files import open_folder, open_report_file
from cxrtext.records.stdin_lines import open_stdin
from cxrtext.records.streamed_csv import open_csv
from cxrtext.records.streamed_jsonl import open_jsonl
from cxrtext.records.streamed_parquet import open_parquet
from cxrtext.records.text_rows import Holds, Item
from cxrtext.records.text_source import TextSource

__all__ = ["BadItem", "Holds", "Item", "TextSource", "check_source", "open_source"]

_BY_ENDING = {
    ".csv": open_csv,
    ".parquet": open_parquet,
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
        The source.  What is wrong with single rows or files comes as a ``BadItem`` in its place; a
        report that is repeated under its study_id comes once.

    Raises:
        DataError: There is nothing at the path, or nothing in it can be read as text to score.
    """
    if str(path) == "-":
        return open_stdin()
    path = Path(path)
    try:
        check_source(path)
        check_listed(path, DataError)
        return open_folder(path) if path.is_dir() else _BY_ENDING[path.suffix.lower()](path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
