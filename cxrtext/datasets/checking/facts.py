"""Facts about an image file: few, without its pixels, and cached for the next check."""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cxrtext.datasets.admission import NEEDED, decide
from cxrtext.datasets.admission.decide import BURNED_IN
from cxrtext.datasets.admission.public import with_set
from cxrtext.errors import DataError, ImageError
from cxrtext.files.sqlite import open_database, sqlite_errors
from cxrtext.images import encode_png
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import is_dicom, read_wanted
from cxrtext.images.frontal import look
from cxrtext.images.read import decode_image
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.images.source import quiet, shown, stored_bytes

CACHE_NAME = ".check-data.sqlite"  # the file, beside the manifest
SECONDS = 120.0  # time limit for an image
_VERSION = 16  # raised whenever the same file would give other facts
_COMMIT_SECONDS = 5.0
Stamp = tuple[int, int]  # size in bytes, and time of change in nanoseconds


@dataclass(frozen=True, slots=True)
class ImageFacts:
    fault: str = ""  # why it cannot be read; "" if it can, and then the rest is known
    refused: str = ""  # why import would leave a DICOM file out; "" if it would keep it
    burned_in: bool = False  # whether a DICOM header says that text is drawn into the picture
    stored_width: int = 0  # of the file's pixels; differs from ``width`` if the picture was turned
    stored_height: int = 0
    width: int = 0  # of the picture as shown
    height: int = 0
    mean: float = 0.0  # mean gray level, 0 to 255
    low: int = 0  # gray level with one pixel in a hundred below it
    high: int = 0  # gray level with one pixel in a hundred above it
    constant: bool = False  # whether all pixels are equal
    pixel_digest: str = ""  # SHA-256 of size and 8-bit pixels, its first 128 bits
    looks: str = ""  # what the picture looks like to `cxrtext.images.frontal`; "" if frontal
    sure: float = 0.0  # how sure that is, 0 to 1


def read_facts(path: str) -> ImageFacts:
    """Read an image file and note what it holds; errors are noted, not raised."""
    try:
        with quiet():
            return _read(Path(path))
    except ImageError as error:
        return ImageFacts(fault=str(error).removeprefix(f"{shown(path)}: "))
    except OSError as error:
        return ImageFacts(fault=f"cannot be opened ({error.strerror}); check its permissions")
    except MemoryError:
        return ImageFacts(fault="is too large for the memory; make the image smaller")


def facts_work(path: str, _: bytes) -> tuple[dict[str, Any], bytes]:
    return asdict(read_facts(path)), b""


def looked_at(paths: Iterable[str], workers: int) -> Iterator[tuple[str, ImageFacts]]:
    """The facts of each file, read in child processes; a lost process is a fault of its file."""
    for path, answer in answers(facts_work, paths, workers, seconds=SECONDS):
        if isinstance(answer, ProcessLost):
            yield path, ImageFacts(fault=answer.line("read"))
        else:
            yield path, ImageFacts(**answer[0])


def _read(path: Path) -> ImageFacts:
    data = stored_bytes(path)
    decoded = decode_image(data, str(path))
    facts = _describe(decoded.bytes()[0])
    if (place := decoded.placement) is not None:
        width, height = place.stored_width, place.stored_height
        facts = replace(facts, stored_width=width, stored_height=height)
    if not is_dicom(data):
        return facts
    said = described(read_wanted(path, NEEDED), NEEDED)
    decision = decide(said)
    return replace(facts, refused=str(decision), burned_in=BURNED_IN in decision.notes)


def _describe(gray: npt.NDArray[np.uint8]) -> ImageFacts:
    counts = np.bincount(gray.ravel(), minlength=256)
    share = np.cumsum(counts) / gray.size
    digest = hashlib.sha256(f"{gray.shape[1]} x {gray.shape[0]}:".encode())
    digest.update(np.ascontiguousarray(gray).data)
    constant = bool(counts.max() == gray.size)
    seen = None if constant else look(gray)
    return ImageFacts(
        looks="" if seen is None or seen.frontal else seen.kind,
        sure=0.0 if seen is None else round(seen.score, 3),
        width=gray.shape[1],
        height=gray.shape[0],
        stored_width=gray.shape[1],
        stored_height=gray.shape[0],
        mean=round(float(counts @ np.arange(256)) / gray.size, 1),
        low=int(np.searchsorted(share, 0.01)),
        high=int(np.searchsorted(share, 0.99)),
        constant=constant,
        pixel_digest=digest.hexdigest()[:32],
    )


def as_set_says(facts: ImageFacts, path: Path, layout: str) -> ImageFacts:
    """Facts about a file of a public set; the set's description fills the gaps in its header."""
    if not facts.refused:
        return facts
    try:
        said = described(read_wanted(path, NEEDED), NEEDED)
    except (ImageError, OSError):
        return facts
    return replace(facts, refused=str(decide(with_set(said, layout))))


def thumbnail_work(task: tuple[str, int], _: bytes) -> tuple[None, bytes]:
    """Draw a small PNG of a file, at most ``side`` pixels long; no bytes if it is unreadable."""
    path, side = task
    try:
        picture = Image.fromarray(decode_image(stored_bytes(Path(path)), path).bytes()[0])
    except (ImageError, MemoryError):
        return None, b""
    picture.thumbnail((side, side), Image.Resampling.BOX)
    return None, encode_png(picture)


class FactsCache:
    """Facts by path, valid while the file's size and time of change stay; None keeps nothing."""

    def __init__(self, database: sqlite3.Connection | None) -> None:
        self._database = database
        self._committed = time.monotonic()

    def get(self, path: str, stamp: Stamp) -> ImageFacts | None:
        if self._database is None:
            return None
        row = self._database.execute(
            "SELECT facts FROM facts WHERE path = ? AND size = ? AND mtime_ns = ?",
            (os.fsencode(path), *stamp),
        ).fetchone()
        try:
            return ImageFacts(**json.loads(row[0])) if row else None
        except (ValueError, TypeError):  # damaged
            return None

    def put(self, path: str, stamp: Stamp, facts: ImageFacts) -> None:
        """Keep the facts of a file; faults are not kept, so that the file is read again."""
        if self._database is None or facts.fault:
            return
        row = os.fsencode(path), *stamp, json.dumps(asdict(facts))
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)", row)
        if time.monotonic() - self._committed > _COMMIT_SECONDS:
            self._database.execute("COMMIT")
            self._database.execute("BEGIN IMMEDIATE")
            self._committed = time.monotonic()


@contextmanager
def open_cache(folder: Path) -> Iterator[FactsCache]:
    """Open the cache of a data folder; it is saved also after an error.

    If the folder is not writable, nothing is kept.
    """
    path = folder / CACHE_NAME
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        yield FactsCache(None)
        return
    with (
        sqlite_errors(path, DataError, "remove it and start again"),
        closing(open_database(path)) as database,
    ):
        if database.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            database.execute("DROP TABLE IF EXISTS facts")
        database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute(
            "CREATE TABLE IF NOT EXISTS facts (path BLOB PRIMARY KEY, size INTEGER NOT NULL, "
            "mtime_ns INTEGER NOT NULL, facts TEXT NOT NULL) WITHOUT ROWID"
        )
        database.execute("BEGIN IMMEDIATE")
        try:
            yield FactsCache(database)
        finally:
            database.execute("COMMIT")
