"""Text divided into sentences."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from cxrtext.text.characters import normalise
from cxrtext.text.lines import deliberate_breaks
from cxrtext.text.lists import list_marks
from cxrtext.text.segmenter import segment

_BLANK_LINE = re.compile(r"\n\s*\n")
# "left lung apex.There are": a space was lost.
_LOST_SPACE = re.compile(r"(?<=[A-Za-z0-9)][A-Za-z0-9)][.?!])(?=[A-Z][a-z])")
_LETTER = re.compile(r"[^\W\d_]")
_PLACEHOLDERS = re.compile(r"\bX{2,}\b|_+|\[\*\*[^\]]{0,80}\*\*\]")


class Piece(NamedTuple):
    """A part of a text: a sentence that is kept, or what is dropped between sentences."""

    text: str
    kept: bool


def _says_something(sentence: str) -> bool:
    """Whether there is a letter outside the marks that de-identification leaves."""
    return _LETTER.search(_PLACEHOLDERS.sub(" ", sentence)) is not None


def _item_pieces(item: str) -> Iterator[Piece]:
    """The sentences of a paragraph or list item."""
    for part in deliberate_breaks(item):
        line = " ".join(part.split())
        if line:
            for sentence in segment(_LOST_SPACE.sub(" ", line)):
                yield Piece(sentence, _says_something(sentence))


def divide(text: str) -> Iterator[Piece]:
    """Divide a text into its sentences and what is dropped between them.

    Args:
        text: A section or a whole text; may be empty.

    Yields:
        Pieces in order.  Apart from white space they are the normalised text, no character lost,
        repeated or altered.
    """
    for block in _BLANK_LINE.split(normalise(text)):
        done = 0
        for start, end in list_marks(block):
            yield from _item_pieces(block[done:start])
            yield Piece(block[start:end].strip(), kept=False)
            done = end
        yield from _item_pieces(block[done:])


def split_sentences(text: str) -> list[str]:
    """Divide a text into sentences, with PySBD.

    Wrapped lines are joined; a blank line, a line that was ended on purpose and a list marker
    ("1.", "2)", "-") end a sentence, and the marker is dropped.  HTML's character references are
    resolved, control characters are spaces, and so are the field marks ``[<`` and ``>]``.
    De-identification marks (``XXXX``, ``___``) are kept, but what holds no letter beside them is
    no sentence.  Nothing else is lost.  Time grows linearly with the text.

    Args:
        text: A section or a whole text; may be empty.

    Returns:
        The sentences in order, each on one line with single spaces.

    Source: Sadvilkar and Neumann 2020 (PySBD).
    """
    return [piece.text for piece in divide(text) if piece.kept]
