"""Text divided into sentences."""

import html
import re
from collections.abc import Iterator

from cxrtext.text.segmenter import segment

_BLANK_LINE = re.compile(r"\n\s*\n")
# "1." "2)" "(3)" "-" "*" and bullets open an item of a list.
_NUMBER = r"(?:\(?\d{1,2}\)|\d{1,2}\.)"
_ITEM_LINE = re.compile(rf"^[ \t]*(?:{_NUMBER}(?=\s|[A-Z(]|$)|[-*•·–]+(?=\s))[ \t]*", re.MULTILINE)
# The same inside a line, only where a sentence has just ended ("No. 3." and "T12." are none).
_ITEM_INLINE = re.compile(rf"(?<=[.;:?!])(?<!\bNo\.)(?<!\bno\.)\s+{_NUMBER}\s+(?=[A-Z(_])")
# "Chest 1. Heart normal. 2. Lungs clear.": the first item follows a title.
_FIRST_ITEM = re.compile(r"\s1\.\s+(?=[A-Z])")
_SECOND_ITEM = re.compile(r"[.;:?!]\s+2\.\s+(?=[A-Z])")
# "left lung apex.There are": a space was lost.
_LOST_SPACE = re.compile(r"(?<=[a-z]{3}[.?!])(?=[A-Z][a-z])")
# "[<...>]": a dictation system's marks around a template's field.
_FIELD_MARK = re.compile(r"\[<|>\]")
_LETTER = re.compile(r"[^\W\d_]")
_PLACEHOLDERS = re.compile(r"\bX{2,}\b|_+|\[\*\*.*?\*\*\]")
_LEADING_MARK = re.compile(rf"^(?:{_NUMBER}\s+|[-*•·–]+\s+)+")


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and list items, each on one line."""
    text = _FIELD_MARK.sub(" ", html.unescape(text))
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", " ")
    for block in _BLANK_LINE.split(text):
        marked = _ITEM_LINE.sub("\x00", block)
        if _SECOND_ITEM.search(marked):
            marked = _FIRST_ITEM.sub("\x00", marked, count=1)
        marked = _ITEM_INLINE.sub("\x00", marked)
        for item in marked.split("\x00"):
            line = " ".join(item.split())
            if line:
                yield _LOST_SPACE.sub(" ", line)


def _says_something(sentence: str) -> bool:
    """Whether there is a letter outside the marks that de-identification leaves."""
    return _LETTER.search(_PLACEHOLDERS.sub(" ", sentence)) is not None


def split_sentences(text: str) -> list[str]:
    """Divide a text into sentences, with PySBD.

    Wrapped lines are joined; a blank line and a list marker ("1.", "2)", "-") end a sentence, and
    the marker is dropped.  De-identification marks (``XXXX``, ``___``) are kept, but what holds
    no letter beside them is no sentence.  Time grows linearly with the text.

    Args:
        text: A section or a whole text; may be empty.

    Returns:
        The sentences in order, each on one line with single spaces.

    Source: Sadvilkar and Neumann 2020 (PySBD).
    """
    sentences = []
    for paragraph in _paragraphs(text):
        for found in segment(paragraph):
            sentence = _LEADING_MARK.sub("", found)
            if _says_something(sentence):
                sentences.append(sentence)
    return sentences
