"""Reports in text files of their own, in folders as MIMIC-CXR has them."""

import hashlib
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import sha256
from cxrtext.records.decoding import NOT_UTF8, decode, unreadable
from cxrtext.records.study import Rejected, Study
from cxrtext.records.text_source import StreamedSource, distinct_studies

FILE_LIMIT = 10_000_000  # largest file that is read, in bytes
_MIMIC_STEM = re.compile(r"s(\d+)", re.ASCII)


def study_id_of(stem: str) -> str:
    """Return the study_id that a file's name gives.

    MIMIC-CXR calls the report of study 50414267 ``s50414267.txt``, and its tables leave out the s.
    """
    match = _MIMIC_STEM.fullmatch(stem)
    return match[1] if match else stem.strip()


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _names(root: Path, below: str) -> list[str] | Rejected:
    """What to read of one folder: paths relative to the root in order, folders with a slash."""
    names = []
    try:
        with os.scandir(root / below) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    names.append(f"{below}{entry.name}/")
                elif entry.name.lower().endswith(".txt") or (entry.is_symlink() and entry.is_dir()):
                    names.append(f"{below}{entry.name}")
    except OSError as error:
        reason = f"the folder cannot be read ({error.strerror})"
        return Rejected(_printable(below) or ".", reason)
    return sorted(names)


def _walk(root: Path) -> Iterator[str | Rejected]:
    """Every text file, and every link to a folder, in the order of their relative paths."""
    stack: list[Iterator[str]] = []
    name: str | None = ""
    while True:
        if name is None:
            stack.pop()
        elif name == "" or name.endswith("/"):
            names = _names(root, name)
            if isinstance(names, Rejected):
                yield names
            stack.append(iter(() if isinstance(names, Rejected) else names))
        else:
            yield name
        if not stack:
            return
        name = next(stack[-1], None)


def _read(path: Path) -> str | None:
    """The report in a file; None where it is too large.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not text.
    """
    with path.open("rb") as handle:
        content = handle.read(FILE_LIMIT + 1)
    if len(content) > FILE_LIMIT:
        return None
    text = decode(content)
    reason = unreadable(content) or (NOT_UTF8 if text is None else None)
    if reason is not None:
        raise ValueError(reason)
    return text


def read_report_file(path: Path, item: str, number: int) -> tuple[str, Study] | Rejected:
    """Read a text file as one report.

    Returns:
        The item and its study, or what is wrong with the file.
    """
    study_id = study_id_of(path.stem)
    if not study_id or not study_id.isprintable():
        return Rejected(item, "its name cannot be a study_id; rename the file")
    try:
        if not path.is_file():
            return Rejected(item, "not a file, or a link that leads nowhere; remove it")
        text = _read(path)
    except OSError as error:
        return Rejected(item, f"cannot be read ({error.strerror}); see its permissions")
    except ValueError as error:
        return Rejected(item, str(error))
    if text is None:
        return Rejected(item, f"larger than {FILE_LIMIT // 1_000_000} MB; is it a report?")
    return item, Study(study_id, text, row=number)


def _files(root: Path) -> Iterator[tuple[str, Study] | Rejected]:
    number = 0
    for name in _walk(root):
        if isinstance(name, Rejected):
            yield name
            continue
        path, item = root / name, _printable(name)
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            yield Rejected(item, "a link that leads out of the folder; put the file itself there")
        elif not path.is_dir():  # a link to a folder: its files are read where they lie
            number += 1
            yield read_report_file(path, item, number)


def _folder_digest(root: Path) -> str:
    digest = hashlib.sha256()
    for name in _walk(root):
        if isinstance(name, Rejected):
            continue
        try:
            status = (root / name).stat()
        except OSError:
            continue
        digest.update(os.fsencode(name) + b"\0%d\0%d\n" % (status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


def open_folder(path: Path) -> StreamedSource:
    """Open a folder of reports: every ``*.txt`` in it and in the folders below.

    Hidden files are passed over.  Links are followed to files in the folder, not out of it.

    Raises:
        DataError: There is no text file.
    """
    root = path.resolve()
    wrong = ""
    for name in _walk(root):
        if isinstance(name, str):
            break
        wrong = wrong or f" ({name.item}: {name.reason})"
    else:
        raise DataError(
            f"{path}: no .txt file in this folder or below{wrong}; give a folder of report files, "
            "or a table of reports (.csv, .parquet, .jsonl)"
        )
    return StreamedSource(
        str(path),
        "reports",
        digest=partial(_folder_digest, root),
        items=lambda: distinct_studies(_files(root), "file"),
    )


def open_report_file(path: Path) -> StreamedSource:
    """Open one text file as one report.

    Raises:
        DataError: It is empty, too large, or not text.
    """
    first = read_report_file(path, path.name, 1)
    if isinstance(first, Rejected):
        raise DataError(f"{path}: {first.reason}")
    if not first[1].report.strip():
        raise DataError(f"{path}: the file is empty")
    return StreamedSource(
        str(path),
        "reports",
        digest=partial(sha256, path),
        items=lambda: distinct_studies([read_report_file(path, path.name, 1)], "file"),
    )
