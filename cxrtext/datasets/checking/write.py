"""The data-check report in a file."""

from pathlib import Path

from cxrtext.datasets.checking.html_page import html_page
from cxrtext.datasets.checking.markdown_page import markdown_page
from cxrtext.datasets.checking.report import CheckReport
from cxrtext.errors import DataError
from cxrtext.files import write_json, write_text

ENDINGS = (".html", ".md", ".json")
"""What a report can be written as."""


def check_ending(path: Path) -> None:
    """Refuse a file that no report can be written to, before any work is done.

    Raises:
        DataError: It ends in something else, or is a folder.
    """
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"{path}: a data-check report ends in {', '.join(ENDINGS)}")
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file")


def write_check(path: Path, report: CheckReport) -> None:
    """Write a report as HTML, Markdown or JSON, by the file's ending; whole or not at all.

    Args:
        path: The file.
        report: What was found.

    Raises:
        DataError: The ending is none of these.
    """
    check_ending(path)
    match path.suffix.lower():
        case ".html":
            write_text(path, html_page(report))
        case ".md":
            write_text(path, markdown_page(report))
        case _:
            write_json(path, report.to_dict())
