"""Text in the margins of an image that may name a patient: a name, a date, a number.

Most images have none, which a quick search for lines of strokes, in NumPy, tells.  Tesseract, a
separate program, reads the others: Latin letters on level lines.  The text itself never leaves
this module.
"""

import os
import re
import subprocess
from difflib import get_close_matches
from shutil import which

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cxrtext.errors import UnavailableError

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

PROGRAM = "tesseract"
UNREAD = "text that could not be read"
READ_S = 30.0
MARGIN = 0.18  # share of each side that is searched
CELLS = 24  # along the longer side
LOOKED, SAMPLED = 1600, 540  # columns and rows searched along the longer side
CLEAR = 40  # gray levels from a stroke to the ground beside it
EDGES, ROWS = 7, 2  # edges of strokes in two cells side by side, in this many of a cell's rows
LONGEST = 2000  # pixels of the longer side of the page that is read
FAINT = 28  # gray levels by which ribs and noise stand out
WIDEST = 15  # pixels of a stroke on that page; anything wider is ground
CLEARER = np.clip((np.arange(256) - FAINT) * 4, 0, 255).astype(np.uint8)
SURE, VERY_SURE = 50.0, 70.0  # percent, for a word beside others and for a single word
LONG, HALF_SURE = 9, 15.0  # letters of two names read as one, and percent
FAIRLY_SURE = 40.0  # percent, for a number
NEAR = 0.75  # likeness of a misread word to its marker

MARKERS = re.findall(
    "[A-Z]+",
    "LEFT RIGHT LINKS RECHTS DERECHA IZQUIERDA DROITE GAUCHE DESTRA SINISTRA PORT PORTABLE "
    "MOBILE  BEDSIDE ERECT UPRIGHT UPRT SUPINE SUPINO PRONE SITTING STANDING SEMI SEMIERECT "
    "LYING SEDUTO  DECUBITUS STEHEND LIEGEND SITZEND BETT STATION DEBOUT COUCHE LATERAL "
    "FRONTAL VIEW CHEST THORAX TORACE  BETTAUFNAHME LUNG LUNGE INSPIRATION EXPIRATION INSP "
    "EXP HOSPITAL RADIOLOGY PATIENT EXAM ROOM WARD STEP  SERIES FILM GRID BUCKY RASTER DOSE "
    "TABLE WALL TRAUMA RESUS STRETCHER ARROW REVERSED KVP MAS  UHR TIME HRS TOP ARTEFACT "
    "WARNING NOT FOR DIAGNOSTIC USE",
)
"""Words that radiographers put in margins and that name nobody."""

_DATE = re.compile(
    r"\d{1,2}([./-])\d{1,2}\1(19|20)?\d{2}(?!\d)|"
    r"(19|20)\d{2}([./-]?)(0[1-9]|1[0-2])\4[0-3]\d(?!\d)|"
    r"\d{1,2}[.-]?(JAN|FEB|M[AÄ]R|APR|MA[YI]|JUN|JUL|AUG|SEP|O[CK]T|NOV|DE[CZ])[A-Z]*"
    r"[.,-]?(19|20)?\d{2}(?!\d)"
)
_NUMBER = re.compile(r"\d{5,}|\d{3} \d{3}")
_JOINED = re.compile(r"([^\W\d_]{3,})[^\w\s.,:;|()\[\]{}/—-]+ ?([^\W\d_]{3,})")  # by a misread ^
_WORD = re.compile(r"[^\W\d_]{3,}")
_TWO = re.compile("([A-Z][a-z]{2,}A?){2}")
_VOWEL = re.compile("[AEIOUYÄÖÜÉ]")


def need_tesseract() -> None:
    """Say how to install Tesseract if it is missing (UnavailableError)."""
    if which(PROGRAM) is None:
        raise UnavailableError(
            f"{PROGRAM}, which reads the margins of images, is not installed; "
            "run: apt install tesseract-ocr"
        )


def burnt_in_text(pixels: Bytes) -> str:
    """Say what the margins of an image seem to name: "a name", "a date", "a number", or "".

    The answer is `UNREAD` if they hold more than can be read in half a minute.

    Args:
        pixels: [H, W], as the image is shown.

    Raises:
        UnavailableError: There is text, and Tesseract is not installed.
    """
    cells = _lines_of_strokes(pixels)
    if not cells.any():
        return ""
    words = _read(_page(pixels, cells))
    return UNREAD if words is None else _meaning(words)


def _lines_of_strokes(pixels: Bytes) -> Mask:
    """The cells of the margins that seem to hold a line of letters, [rows, columns] of cells."""
    height, width = pixels.shape
    long = max(height, width)
    side = -(-long // CELLS)
    down, across = max(1, round(long / SAMPLED)), max(1, round(long / LOOKED))
    seen = pixels[::down, ::across]
    before, after = seen[:, :-2], seen[:, 2:]
    edge = np.maximum(before, after) - np.minimum(before, after) > CLEAR
    edge[:, 1:] &= ~edge[:, :-1]  # an edge counts once, where it begins
    top, left = round(MARGIN * edge.shape[0]), round(MARGIN * edge.shape[1])
    edge[top:-top, left:-left] = False
    starts = np.arange(0, width, side) // across
    in_cell = np.add.reduceat(edge, starts[starts < edge.shape[1]], axis=1, dtype=np.uint16)
    pairs = np.zeros((in_cell.shape[0], len(starts)), dtype=bool)
    enough = in_cell[:, :-1] + in_cell[:, 1:] >= EDGES
    pairs[:, : enough.shape[1]] = enough
    pairs[:, 1 : enough.shape[1] + 1] |= enough
    lines = np.add.reduceat(pairs, np.arange(0, height, side) // down, axis=0, dtype=np.uint16)
    return np.asarray(lines >= ROWS)


def _page(pixels: Bytes, cells: Mask) -> Bytes:
    """The text of these cells and their neighbors, black on white, without anything else."""
    from scipy.ndimage import binary_dilation, grey_closing, grey_opening

    long = max(pixels.shape)
    scale = LONGEST / long
    size = round(pixels.shape[1] * scale), round(pixels.shape[0] * scale)
    small = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
    near = binary_dilation(cells, np.ones((3, 3)))
    side = -(-long // CELLS) * scale
    row = np.minimum((np.arange(size[1]) / side).astype(int), len(cells) - 1)
    column = np.minimum((np.arange(size[0]) / side).astype(int), cells.shape[1] - 1)
    cut = np.ix_(near.any(axis=1)[row], near.any(axis=0)[column])
    page = np.asarray(small)[cut]
    opened, closed = (
        change(page, WIDEST, mode="nearest") for change in (grey_opening, grey_closing)
    )
    shown = near[row][:, column][cut]
    halves = [np.where(shown, CLEARER[half], 0) for half in (page - opened, closed - page)]
    return 255 - np.concatenate(halves)


def _read(page: Bytes) -> list[tuple[str, float, str]] | None:
    """The words of a page, each with its certainty in percent and its line; None on failure."""
    need_tesseract()
    try:
        done = subprocess.run(  # noqa: S603 - Debian's
            [PROGRAM, "stdin", "stdout", "--psm", "11", "tsv"],
            input=b"P5 %d %d 255\n" % page.shape[::-1] + page.tobytes(),
            capture_output=True, check=True, timeout=READ_S,
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
        )  # fmt: skip
    except subprocess.SubprocessError:
        return None
    rows = [line.split("\t") for line in done.stdout.decode("utf-8", "replace").splitlines()[1:]]
    return [
        (row[11].strip(), float(row[10]), "-".join(row[1:5]))
        for row in rows
        if len(row) == 12 and row[11].strip()
    ]


def _meaning(words: list[tuple[str, float, str]]) -> str:
    lines: dict[str, list[tuple[str, float]]] = {}
    for text, sure, number in words:
        lines.setdefault(number, []).append((text, sure))
    meaning = ""
    for line in lines.values():
        whole = " ".join(text for text, _ in line)
        if _DATE.search(whole.replace(" ", "").upper()):
            return "a date"
        if _NUMBER.search(" ".join(text for text, sure in line if sure >= FAIRLY_SURE)):
            meaning = meaning or "a number"
        elif _names(whole, line):
            meaning = "a name"
    return meaning


def _names(whole: str, line: list[tuple[str, float]]) -> bool:
    if any(_may_name(first) and _may_name(last) for first, last in _JOINED.findall(whole)):
        return True
    named = [
        (len(word), sure)
        for text, sure in line
        for word in _WORD.findall(text)
        if sure >= (HALF_SURE if len(word) >= LONG else SURE) and _may_name(word)
    ]
    return len(named) > 1 or any(
        length >= LONG or (length > 3 and sure >= VERY_SURE) for length, sure in named
    )


def _may_name(word: str) -> bool:
    """Whether a word looks like a name and is no marker, not even misread or run together."""
    upper = word.upper()
    return (
        (word in (upper, word.capitalize(), word.lower()) or _TWO.fullmatch(word) is not None)
        and _VOWEL.search(upper) is not None
        and not get_close_matches(upper, MARKERS, 1, NEAR)
        and not any(len(marker) > 4 and marker in upper for marker in MARKERS)
    )
