"""Where a sentence of a report ends."""

import re
from itertools import pairwise

from cxrtext.text.rules import words_in_any

LONGEST = 1000
"""Characters of a sentence; a longer one is cut between words."""

# German abbreviations of two words, whole or after the first of them.
_TWO_WORDS = re.compile(
    r"\b(?:[Vvu]\. ?a|Z\. ?n|St\. ?n|[zon]\. ?[Bb]|d\. ?h|k\. ?A|i\. ?S|a\. ?e|s\. ?o)\.(?= ?\S|$)"
)
_STOP = re.compile(r"[.?!。．！？]['\"’”)\]>]*$")
_WORD_FRONT = re.compile(r"^[\d:.,(\[\"'“‘-]+")
_SMALL_STARTER = re.compile(r"(?:there|no|heart|lungs?)\b")
_TWO_STOPS = re.compile(r"(?<=[^.\s]\.)(?=\.(?:\s|$))")
_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.$")
_MAX_WORD = 40

_END = re.compile(r"[.?!。．！？]['\"’”)\]>]*(?=\s)")
_ASIDE = 200  # characters of text in brackets


def _last_word(before: str) -> str:
    """The last word in small letters, without its stop and what is written against its front."""
    word = before[-_MAX_WORD:].rsplit(" ", 1)[-1].rsplit("/", 1)[-1]
    return _WORD_FRONT.sub("", word).rstrip(".").lower()


def is_end(text: str, end: int) -> bool:
    """Whether a sentence may end at a place, of a text with single spaces, that looks like an end.

    Returns:
        False where the text has no space or no stop there, and after an abbreviation, an ordinal
        ("3. rib"), an ellipsis or a question mark that stands before its word ("? pneumonia").
    """
    before = text[max(0, end - 2 * _MAX_WORD) : end].rstrip()
    after = text[end : end + 20].lstrip()
    if not after:
        return True
    if not (text[end].isspace() or text[end - 1].isspace()) or not _STOP.search(before):
        return False
    small = after[0].islower()
    if before[-1] == "?":
        return before[:-1].strip() != "" and not before[:-1].endswith((" ", "("))
    if before[-1] != ".":
        return not small or before[-1] in "!。．！？"
    nearby = _TWO_WORDS.finditer(text, max(0, end - 8), end + 8)
    if any(match.start() < end <= match.end() + 1 for match in nearby):
        return False
    if small and before.endswith(".."):
        return not before.endswith("...")
    word = _last_word(before)
    # "CHF v. pneumonia", but "Stage V. No effusion."
    if word in words_in_any("never_last") or (word == "v" and before.endswith("v.")):
        return False
    if word in words_in_any("before_number") and after[0].isdigit():
        # "Is there edema? No. 3 mm nodule." holds an answer and no number.
        return word == "no" and before[:-3].rstrip().endswith("?")
    if small and len(word) == 1 and word.isalpha():  # "R. lung"
        return False
    if small and word in words_in_any("before_small"):
        return _SMALL_STARTER.match(after) is not None
    return not (small and _ORDINAL.search(before))


def segment(text: str) -> list[str]:
    """Divide one paragraph with single spaces and no line breaks into sentences.

    They are cut from the text itself, stripped: nothing is lost, repeated or altered.  A sentence
    has at most :data:`LONGEST` characters, or is a single longer word.
    """
    ends = {
        match.end()
        for match in _END.finditer(text)
        if is_end(text, match.end()) and not _in_brackets(text, match.end())
    } | {len(text)}
    # "No effusion..": the second stop is no part of the sentence.
    ends |= {match.end() for match in _TWO_STOPS.finditer(text) if match.end() + 1 in ends}
    pieces = (text[start:end].strip() for start, end in pairwise(sorted({0, *ends})))
    return [part for piece in pieces if piece for part in _parts(piece)]


def _in_brackets(text: str, end: int) -> bool:
    before, after = text[max(0, end - _ASIDE) : end], text[end : end + _ASIDE]
    closed = after.partition("(")[0]
    return before.rfind("(") > before.rfind(")") and ")" in closed


def _parts(sentence: str) -> list[str]:
    """A sentence, or what a longer one is cut into."""
    parts, done = list[str](), 0
    while len(sentence) > done + LONGEST:
        space = sentence.rfind(" ", done, done + LONGEST)
        cut = space + 1 if space > done else sentence.find(" ", done + LONGEST) + 1
        parts.append(sentence[done : cut or len(sentence)].strip())
        done = cut or len(sentence)
    return [part for part in [*parts, sentence[done:].strip()] if part]
