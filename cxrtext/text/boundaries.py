"""Where a sentence of a report ends, and where it only seems to."""

import re
from collections.abc import Iterable


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A name or more of the sentence follows these, so none ends in them.
_NEVER_LAST = _words(
    """
    dr drs mr mrs ms prof rev st vs e.g i.e eg ie cf ca approx appx fig figs esp incl dept
    """
)
# "No. 3", "Jan. 5": a number follows.
_BEFORE_NUMBER = _words(
    """
    no nos im img ser vol p pp jan feb mar apr jun jul aug sep sept oct nov dec est max temp ext
    ref acc
    """
)
# They end a sentence, but not before a small letter: "1.5 cm. in length", "4:15 p.m. by phone".
_BEFORE_SMALL = _words(
    """
    cm mm kg lb lbs ft hr hrs min mins sec secs wk wks mo mos yr yrs a.m p.m am pm ant lat bilat
    inf sup rt lt diam wt ht pt pts resp cont poss prob temp est max etc hx dx fx tx rx prev
    susp abd jr sr
    """
)
_STOP = re.compile(r"[.?!。．！？]['\"’”)\]>]*$")
_WORD_FRONT = re.compile(r"^[\d:.,(\[\"'“‘-]+")
_SMALL_STARTER = re.compile(r"(?:there|no|heart|lungs?)\b")
_TWO_STOPS = re.compile(r"(?<=[^.\s]\.)(?=\.(?:\s|$))")
_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.$")
_LONGEST_WORD = 40

_STARTER = (
    r"(?:The|There|This|These|Those|That|It|They|No|Not|Heart|Cardiac|Cardiomediastinal"
    r"|Cardiomegaly|Mediastin(?:um|al)|Lungs|Pulmonary|Pleural|Degenerative|Osseous|Bony|Trachea"
    r"|Normal|Stable|Unchanged|Clear|Mild|Moderate|Severe|Minimal|Small|Large|Low|Bilateral"
    r"|Bibasilar|Interval|Visualized|Otherwise|However|Again|Also|Both|Please|Recommend|Consider"
    r"|Findings|Impression|Status|Patient|If|In|Is|As|On|At|With|Without|Right|Left"
    r"|A(?= [a-z0-9]))\b"
)
# PySBD takes the stop of "hepatitis C." and of "R.N." for part of the word, whatever follows.
_MISSED = re.compile(rf"(?<=[\w)\"”]\.)\s(?={_STARTER})")
# The ends that nobody doubts, for text that PySBD garbles.
PLAIN_END = re.compile(r"(?<=[a-z0-9_X)]{3}[.!?])\s+(?=[A-Z])")


def _last_word(before: str) -> str:
    """The last word in small letters, without its stop and what is written against its front."""
    word = before[-_LONGEST_WORD:].rsplit(" ", 1)[-1].rsplit("/", 1)[-1]
    return _WORD_FRONT.sub("", word).rstrip(".").lower()


def is_end(text: str, end: int) -> bool:
    """Whether a sentence may end at a place that looks like an end.

    Args:
        text: A text with single spaces.
        end: A place in it: what is before it would be the sentence, or the last part of it.

    Returns:
        False where the text has no space or no stop there, and after an abbreviation, an ordinal
        ("3. rib"), an ellipsis or a question mark that stands before its word ("? pneumonia").
    """
    before = text[max(0, end - 2 * _LONGEST_WORD) : end].rstrip()
    after = text[end : end + 20].lstrip()
    if not after:
        return True
    if not (text[end].isspace() or text[end - 1].isspace()) or not _STOP.search(before):
        return False
    small = after[0].islower()
    if before[-1] == "?":
        return before[:-1].strip() != "" and not before[:-1].endswith((" ", "("))
    if before[-1] != ".":
        return True
    if small and before.endswith(".."):
        return not before.endswith("...")
    word = _last_word(before)
    if word in _NEVER_LAST:
        return False
    if word in _BEFORE_NUMBER and after[0].isdigit():
        # "Is there edema? No. 3 mm nodule." holds an answer and no number.
        return word == "no" and before[:-3].rstrip().endswith("?")
    if small and word in _BEFORE_SMALL:
        return _SMALL_STARTER.match(after) is not None
    return not (small and _ORDINAL.search(before))


def _open(text: str) -> bool:
    """Whether a text ends inside parentheses."""
    return text.rfind("(") > text.rfind(")")


def corrected(text: str, proposed: Iterable[int]) -> list[int]:
    """Return the true ends among those proposed, and those that PySBD is known to miss.

    Args:
        text: A text with single spaces.
        proposed: Places where a sentence is said to end.

    Returns:
        The places in order, the length of the text last; what lies between two is a sentence and
        the space after it.
    """
    missed = (match.start() for match in _MISSED.finditer(text))
    ends = {end for end in proposed if is_end(text, end)}
    ends |= {end for end in missed if is_end(text, end) and not _open(text[:end])}
    ends = {end for end in ends if 0 < end < len(text)} | {len(text)}
    # "No effusion..": the second stop is no part of the sentence.
    ends |= {match.end() for match in _TWO_STOPS.finditer(text) if match.end() + 1 in ends}
    return sorted(ends)
