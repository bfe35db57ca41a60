"""The files in a folder and its subfolders, and reports in text files as in MIMIC-CXR."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import sha256
from cxrtext.records.decoding import NOT_UTF8, decode, unreadable
from cxrtext.records.study import LeftOut, Study
from cxrtext.records.text_source import TextSource, distinct_studies


def printable(name: str) -> str:
    """A file name that is safe in a message: printable and on one line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


FOLLOW_LINKS: ContextVar[bool] = ContextVar("FOLLOW_LINKS", default=False)
"""Whether to follow links to folders, and links that lead out of a folder."""


@contextmanager
def following_links(follow: bool) -> Iterator[None]:
    token = FOLLOW_LINKS.set(follow)
    try:
        yield
    finally:
        FOLLOW_LINKS.reset(token)


def walk(root: Path, wanted: Callable[[os.DirEntry[str]], bool]) -> Iterator[str | LeftOut]:
    """Give the relative path of every file that is not hidden, in order, and unreadable folders.

    Links to folders are given as files or, with `FOLLOW_LINKS`, followed, but no folder is read
    twice.  Memory holds the names of one folder per level.  ``wanted`` decides about each file and
    folder.
    """
    stack, follow = [""], FOLLOW_LINKS.get()
    seen = set[tuple[int, int]]()
    while stack:
        name = stack.pop()
        if name and not name.endswith("/"):
            yield name
            continue
        try:
            if follow:
                status = (root / name).stat()
                if (place := (status.st_dev, status.st_ino)) in seen:
                    continue
                seen.add(place)
            with os.scandir(root / name) as entries:
                names = [
                    name + entry.name + "/" * entry.is_dir(follow_symlinks=follow)
                    for entry in entries
                    if not entry.name.startswith(".") and wanted(entry)
                ]
        except OSError as error:
            reason = f"the folder cannot be read ({error.strerror}); see its permissions"
            yield LeftOut(printable(name) or ".", reason)
        else:
            stack += sorted(names, reverse=True)


FILE_LIMIT = 10_000_000  # largest report file, in bytes


def _walk(root: Path) -> Iterator[str | LeftOut]:
    """Every text file and every link to a folder, in order of their relative paths."""
    return walk(root, lambda entry: entry.is_dir() or entry.name.lower().endswith(".txt"))


def read_report_file(path: Path, item: str, number: int) -> tuple[str, Study] | LeftOut:
    """Read a text file as one report: the item and its study, or what is wrong with the file."""
    # MIMIC-CXR names the report of study 50414267 s50414267.txt; its tables leave out the s.
    match = re.fullmatch(r"s([0-9]+)", path.stem)
    study_id = match[1] if match else path.stem.strip()
    if not study_id or not study_id.isprintable():
        return LeftOut(item, "its name cannot be a study_id; rename the file")
    try:
        if not path.is_file():
            return LeftOut(item, "not a file, or a link that leads nowhere; remove it")
        with path.open("rb") as handle:
            content = handle.read(FILE_LIMIT + 1)
    except OSError as error:
        return LeftOut(item, f"cannot be read ({error.strerror}); see its permissions")
    if len(content) > FILE_LIMIT:
        return LeftOut(item, f"larger than {FILE_LIMIT // 1_000_000} MB; is it a report?")
    text, reason = decode(content), unreadable(content)
    if text is None or reason is not None:
        return LeftOut(item, reason or NOT_UTF8)
    return item, Study(study_id, text, row=number)


def _files(root: Path) -> Iterator[tuple[str, Study] | LeftOut]:
    number = 0
    for name in _walk(root):
        if isinstance(name, LeftOut):
            yield name
            continue
        path, item = root / name, printable(name)
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            yield LeftOut(item, "a link that leads out of the folder; put the file itself there")
        elif not path.is_dir():  # a link to a folder in this one: its files are read there
            number += 1
            yield read_report_file(path, item, number)


def _folder_digest(root: Path) -> str:
    digest = hashlib.sha256()
    for name in _walk(root):
        if isinstance(name, LeftOut):
            continue
        try:
            status = (root / name).stat()
        except OSError:
            continue
        digest.update(os.fsencode(name) + b"\0%d\0%d\n" % (status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


def open_folder(path: Path) -> TextSource:
    """Open a folder of reports: every ``*.txt`` in it and in the folders below.

    Hidden files are skipped.  Links to files in the folder are followed, others are not.
    """
    root = path.resolve()
    wrong = ""
    for name in _walk(root):
        if isinstance(name, str):
            break
        wrong = wrong or f" ({name.where}: {name.why})"
    else:
        raise DataError(
            f"{path}: no .txt file in this folder or below{wrong}; give a folder of report files, "
            "or a table of reports (.csv, .xlsx, .parquet)"
        )
    digest = partial(_folder_digest, root)
    return TextSource(str(path), "reports", digest, lambda: distinct_studies(_files(root), "file"))


def open_report_file(path: Path) -> TextSource:
    """Open a text file as one report; an empty or unreadable file raises a DataError."""
    read = partial(read_report_file, path, path.name, 1)
    first = read()
    if isinstance(first, LeftOut):
        raise DataError(f"{path}: {first.why}")
    if not first[1].report.strip():
        raise DataError(f"{path}: the file is empty")
    digest = partial(sha256, path)
    return TextSource(str(path), "reports", digest, lambda: distinct_studies([read()], "file"))
