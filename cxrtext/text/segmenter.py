"""PySBD, cured of its slow patterns and kept to short pieces."""

import functools
import re
from typing import Protocol, cast

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

_BOUNDARY = re.compile(r"(?<=[a-z0-9_X)]{3}[.!?])\s+(?=[A-Z])")


class _Processor(Protocol):
    def process(self) -> list[str]: ...


class _Segmenter(Protocol):
    def processor(self, text: str) -> _Processor: ...


@functools.cache
def _segmenter() -> _Segmenter:
    import pysbd
    from pysbd.languages import Language

    # The library reads the pattern from its language class at each call.
    Language.get_language_code("en").NUMBERED_REFERENCE_REGEX = CURED_PATTERN
    return cast("_Segmenter", pysbd.Segmenter(language="en", clean=False))


def _pieces(text: str) -> list[str]:
    """Cut a text into pieces of at most PIECE_LIMIT characters, at sentence ends where possible."""
    pieces = []
    while len(text) > PIECE_LIMIT:
        ends = [match.end() for match in _BOUNDARY.finditer(text, 0, PIECE_LIMIT)]
        space = text.rfind(" ", 0, PIECE_LIMIT)
        cut = ends[-1] if ends else space + 1 if space > 0 else PIECE_LIMIT
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


def segment(text: str) -> list[str]:
    """Divide one paragraph without line breaks into sentences.

    Args:
        text: The paragraph.

    Returns:
        The sentences, stripped.
    """
    if not text.strip():
        return []
    segmenter = _segmenter()
    # Not segment(): that looks every sentence up in the text again, in quadratic time, and drops
    # those it does not find.
    found = (
        sentence for piece in _pieces(text) for sentence in segmenter.processor(piece).process()
    )
    return [stripped for sentence in found if (stripped := sentence.strip())]
