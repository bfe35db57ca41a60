"""Where a sentence ends: PySBD without its slow patterns, corrected for reports."""

import functools
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A sentence never ends in these: a name or more of the sentence follows.
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
# These end a sentence, but not before a small letter: "1.5 cm. in length", "4:15 p.m. by phone".
_BEFORE_SMALL = _words(
    """
    cm mm kg lb lbs ft hr hrs min mins sec secs wk wks mo mos yr yrs a.m p.m am pm ant lat bilat
    inf sup rt lt diam wt ht pt pts resp cont poss prob temp est max etc hx dx fx tx rx prev
    susp pulm pl cardiomeg atel konsolid pleuraerg interstit n
    abd jr sr re li bds dtl ggf evtl bzw izq der dcha dcho izda izdo
    """
)
# German abbreviations of two words, whole or only the first.
_TWO_WORDS = re.compile(
    r"\b(?:[Vvu]\. ?a|Z\. ?n|St\. ?n|[zon]\. ?[Bb]|d\. ?h|k\. ?A|i\. ?S|a\. ?e|s\. ?o|kl"
    r"|(?<=[,;:] )[no]|(?:re|li)(?=\. [OMU][LF]\b))\.(?= ?\S|$)"
)
_STOP = re.compile(r"[.?!。．！？]['\"’”)\]>]*$")
_WORD_FRONT = re.compile(r"^[\d:.,(\[\"'“‘-]+")
_SMALL_STARTER = re.compile(r"(?:there|no|heart|lungs?)\b")
_TWO_STOPS = re.compile(r"(?<=[^.\s]\.)(?=\.(?:\s|$))")
_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.$")
_MAX_WORD = 40

_STARTER = (
    r"(?:The|There|This|These|Those|That|It|They|No|Not|Heart|Cardiac|Cardiomediastinal"
    r"|Cardiomegaly|Mediastin(?:um|al)|Lungs|Pulmonary|Pleural|Degenerative|Osseous|Bony|Trachea"
    r"|Normal|Stable|Unchanged|Clear|Mild|Moderate|Severe|Minimal|Small|Large|Low|Bilateral"
    r"|Bibasilar|Interval|Visualized|Otherwise|However|Again|Also|Both|Please|Recommend|Consider"
    r"|Findings|Impression|Status|Patient|If|In|Is|As|On|At|With|Without|Right|Left"
    r"|A(?= [a-z0-9]))\b"
)
# PySBD takes the stop of "hepatitis C." and "R.N." as part of the word, whatever follows.
_MISSED = re.compile(rf"(?<=[\w)\"”]\.)\s(?={_STARTER})")
# Certain ends, for text that PySBD garbles.
PLAIN_END = re.compile(r"(?<=[a-z0-9_X)]{3}[.!?])\s+(?=[A-Z])")


def _last_word(before: str) -> str:
    """The last word in small letters, without its stop and without marks and digits before it."""
    word = before[-_MAX_WORD:].rsplit(" ", 1)[-1].rsplit("/", 1)[-1]
    return _WORD_FRONT.sub("", word).rstrip(".").lower()


def is_end(text: str, end: int) -> bool:
    """Whether a sentence may end at a place that looks like an end, in text with single spaces.

    Returns:
        False without a space and a stop there, and after an abbreviation, an ordinal ("3. rib"),
        an ellipsis or a question mark before its word ("? pneumonia").
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
        return True
    nearby = _TWO_WORDS.finditer(text, max(0, end - 8), end + 8)
    if any(match.start() < end <= match.end() + 1 for match in nearby):
        return False
    if small and before.endswith(".."):
        return not before.endswith("...")
    word = _last_word(before)
    # "CHF v. pneumonia", but "Stage V. No effusion."
    if word in _NEVER_LAST or (word == "v" and before.endswith("v.")):
        return False
    if word in _BEFORE_NUMBER and after[0].isdigit():
        # "Is there edema? No. 3 mm nodule.": an answer, not an abbreviation.
        return word == "no" and before[:-3].rstrip().endswith("?")
    if small and word in _BEFORE_SMALL:
        return _SMALL_STARTER.match(after) is not None
    return not (small and _ORDINAL.search(before))


def corrected(text: str, proposed: Iterable[int]) -> list[int]:
    """The true ends among those proposed, and those that PySBD is known to miss, in order.

    The last end is the length of the text; between two ends lie a sentence and the space after it.
    """
    missed = (match.start() for match in _MISSED.finditer(text))
    ends = {end for end in proposed if is_end(text, end)}
    ends |= {
        end
        for end in missed
        if is_end(text, end) and text.rfind("(", 0, end) <= text.rfind(")", 0, end)
    }
    ends = {end for end in ends if 0 < end < len(text)} | {len(text)}
    # "No effusion..": the second stop is not part of the sentence.
    ends |= {match.end() for match in _TWO_STOPS.finditer(text) if match.end() + 1 in ends}
    return sorted(ends)


CHUNK_LIMIT = 1000
"""Longest text given to PySBD at once, in characters; some of its rules are quadratic."""


CURED_PATTERN = (
    r"(?<=[^\d\s])(\.|∯)((\[(\d+(?:,\s?-?\s?|\s-?\s?|-\s?))*\d{1,3}\])+|((\d{1,3}\s?)?\d{1,3}))"
    r"(\s)(?=[A-Z])"
)
"""For a sentence that ends in a numbered reference; PySBD 0.3.4's own is exponential (pySBD#79)."""
_ANY_END = re.compile(r"(?<=[^\W_]{3}[.!?;])\s+")
"""For a text in lower case: cut elsewhere, "no | effusion" would affirm an effusion."""

_INNER_STOP = re.compile(r"[.?!。．！？]\S*\s")


@functools.cache
def _language() -> Any:
    """PySBD's English with the cured pattern, and without its abbreviations.

    Those are American states and ranks ("miss.", "ill.", "pa."); the reports' own are above.
    """
    from pysbd.lang.english import English

    names = ("ABBREVIATIONS", "PREPOSITIVE_ABBREVIATIONS", "NUMBER_ABBREVIATIONS")
    none = type("Abbreviation", (English.Abbreviation,), {name: [] for name in names})
    changes = {"NUMBERED_REFERENCE_REGEX": CURED_PATTERN, "Abbreviation": none}
    return type("RadiologyEnglish", (English,), changes)


def _sentences(chunk: str) -> list[str]:
    from pysbd.processor import Processor

    processor: Any = Processor(chunk, _language())
    # The steps of process() without its lists ("in zone 2. The nodule" is not one, and list items
    # are divided already).  segment() is not used: it looks every sentence up in the text again, in
    # quadratic time, and drops those it does not find.
    processor.replace_abbreviations()
    processor.replace_numbers()
    processor.replace_continuous_punctuation()
    processor.replace_periods_before_numeric_references()
    return [str(sentence) for sentence in processor.split_into_segments()]


def _proposed(chunk: str) -> list[int]:
    """The ends of PySBD's sentences, or `PLAIN_END` if its sentences are not in the text."""
    if not _INNER_STOP.search(chunk):
        return []
    ends = []
    place = 0
    for sentence in map(str.strip, _sentences(chunk)):
        while place < len(chunk) and chunk[place].isspace():
            place += 1
        if not chunk.startswith(sentence, place):
            return [match.start() for match in PLAIN_END.finditer(chunk)]
        place += len(sentence)
        ends.append(place)
    return ends


def _chunks(text: str) -> list[str]:
    """Cut a text into chunks of at most CHUNK_LIMIT characters, at sentence ends where possible.

    A word is never cut; a longer word is a chunk of its own.
    """
    chunks, done = [], 0
    while len(text) > done + CHUNK_LIMIT:
        limit = done + CHUNK_LIMIT
        ends = [match.end() for match in PLAIN_END.finditer(text, done, limit)] or [
            match.end() for match in _ANY_END.finditer(text, done, limit)
        ]
        space = text.rfind(" ", done, limit)
        if ends:
            cut = ends[-1]
        elif space > done:
            cut = space + 1
        else:
            cut = text.find(" ", limit) + 1 or len(text)
        chunks.append(text[done:cut])
        done = cut
    return [*chunks, text[done:]]


def segment(text: str) -> list[str]:
    """Divide one paragraph with single spaces and no line breaks into sentences.

    They are cut from the text itself, so nothing is lost or changed, whatever PySBD does.  Each is
    stripped, and has at most CHUNK_LIMIT characters unless it is a single word.
    """
    sentences = []
    for chunk in _chunks(text):
        if len(chunk) > CHUNK_LIMIT:  # one word
            sentences.append(chunk.strip())
            continue
        for start, end in pairwise([0, *corrected(chunk, _proposed(chunk))]):
            sentences.append(chunk[start:end].strip())
    return [sentence for sentence in sentences if sentence]
