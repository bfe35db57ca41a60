"""PySBD, cured of its slow patterns and kept to short pieces."""

import functools
import re
from itertools import pairwise
from typing import Any

from cxrtext.text.boundaries import PLAIN_END, corrected

PIECE_LIMIT = 1000
"""Longest text given to PySBD at once, in characters; some of its rules are quadratic."""

ORIGINAL_PATTERN = (
    r"(?<=[^\d\s])(\.|∯)((\[(\d{1,3},?\s?-?\s?)*\b\d{1,3}\])+|((\d{1,3}\s?)?\d{1,3}))(\s)(?=[A-Z])"
)
"""PySBD 0.3.4's pattern for a sentence that ends in a numbered reference; it is exponential."""

CURED_PATTERN = (
    r"(?<=[^\d\s])(\.|∯)((\[(\d+(?:,\s?-?\s?|\s-?\s?|-\s?))*\d{1,3}\])+|((\d{1,3}\s?)?\d{1,3}))"
    r"(\s)(?=[A-Z])"
)
"""The same in linear time (nipunsadvilkar/pySBD#79)."""

_INNER_STOP = re.compile(r"[.?!。．！？]\S*\s")


@functools.cache
def _language() -> Any:
    """PySBD's English with the cured pattern, and without its abbreviations.

    They are American states and ranks ("miss.", "ill.", "pa."); those of radiology reports are
    known to ``cxrtext.text.boundaries``.
    """
    from pysbd.lang.english import English

    abbreviations = type(
        "Abbreviation",
        (English.Abbreviation,),
        {
            "ABBREVIATIONS": [],
            "PREPOSITIVE_ABBREVIATIONS": [],
            "NUMBER_ABBREVIATIONS": [],
        },
    )
    return type(
        "RadiologyEnglish",
        (English,),
        {"NUMBERED_REFERENCE_REGEX": CURED_PATTERN, "Abbreviation": abbreviations},
    )


def _sentences(piece: str) -> list[str]:
    """The sentences of a short text as PySBD sees them."""
    from pysbd.processor import Processor

    processor: Any = Processor(piece, _language())
    # The steps of process(), but for its lists ("in zone 2. The nodule" is none; list items have
    # been divided already), and not segment(): that looks every sentence up in the text again, in
    # quadratic time, and drops those it does not find.
    processor.replace_abbreviations()
    processor.replace_numbers()
    processor.replace_continuous_punctuation()
    processor.replace_periods_before_numeric_references()
    return [str(sentence) for sentence in processor.split_into_segments()]


def _proposed(piece: str) -> list[int]:
    """The ends of PySBD's sentences, or the plain ones where its sentences are not the text."""
    if not _INNER_STOP.search(piece):
        return []
    ends = []
    place = 0
    for sentence in map(str.strip, _sentences(piece)):
        while place < len(piece) and piece[place].isspace():
            place += 1
        if not piece.startswith(sentence, place):
            return [match.start() for match in PLAIN_END.finditer(piece)]
        place += len(sentence)
        ends.append(place)
    return ends


def _pieces(text: str) -> list[str]:
    """Cut a text into pieces of at most PIECE_LIMIT characters, at sentence ends where possible.

    A word is never cut: one that is longer is a piece by itself.
    """
    pieces = []
    while len(text) > PIECE_LIMIT:
        ends = [match.end() for match in PLAIN_END.finditer(text, 0, PIECE_LIMIT)]
        space = text.rfind(" ", 0, PIECE_LIMIT)
        if ends:
            cut = ends[-1]
        elif space > 0:
            cut = space + 1
        else:
            cut = text.find(" ", PIECE_LIMIT) + 1 or len(text)
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


def segment(text: str) -> list[str]:
    """Divide one paragraph without line breaks into sentences.

    The sentences are cut from the text itself, so that nothing is lost, repeated or altered
    whatever PySBD makes of it.

    Args:
        text: The paragraph, with single spaces.

    Returns:
        The sentences, stripped; the longest has PIECE_LIMIT characters, or is a single longer word.
    """
    sentences = []
    for piece in _pieces(text):
        if len(piece) > PIECE_LIMIT:  # one word, which rules for sentences have no say in
            sentences.append(piece.strip())
            continue
        for start, end in pairwise([0, *corrected(piece, _proposed(piece))]):
            sentences.append(piece[start:end].strip())
    return [sentence for sentence in sentences if sentence]
