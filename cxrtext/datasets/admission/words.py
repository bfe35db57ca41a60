"""Words for views and body parts in nine languages, from `words.yaml`."""

import re
import unicodedata
from pathlib import Path
from typing import Any

from cxrtext.files.yaml_text import read_own

_LISTS: dict[str, Any] = read_own(Path(__file__).with_name("words.yaml"))
_NOT_LETTERS = re.compile(r"[^A-Z]+")
_TERMS = {term: english for english, terms in _LISTS["terms"].items() for term in terms.split()}
_TERM = re.compile("|".join(sorted(_TERMS, key=len, reverse=True)))


def plain_words(text: str) -> str:
    """A text in capitals, without accents and with single spaces between words."""
    if not text.isascii():
        text = _TERM.sub(lambda term: f" {_TERMS[term[0]]} ", text.replace("ß", "ss"))
    folded = unicodedata.normalize("NFKD", text)
    letters = "".join(c for c in folded if not unicodedata.combining(c))
    return _NOT_LETTERS.sub(" ", letters.upper()).strip()


class Words:
    """A set of words, beginnings (``word*``), ends (``*word``) and middles (``*word*``)."""

    def __init__(self, words: str) -> None:
        listed = words.split()
        self._whole = frozenset(word for word in listed if "*" not in word)
        self._beginnings = tuple(w[:-1] for w in listed if w[0] != "*" and w[-1] == "*")
        self._ends = tuple(w[1:] for w in listed if w[0] == "*" and w[-1] != "*")
        self._middles = tuple(w[1:-1] for w in listed if w[0] == "*" and w[-1] == "*")

    def within(self, words: str) -> bool:
        """Whether a text made by `plain_words` has one of them."""
        return any(
            word in self._whole
            or word.startswith(self._beginnings)
            or word.endswith(self._ends)
            or any(middle in word for middle in self._middles)
            for word in words.split()
        )


LATERALS, OBLIQUES, DECUBITUS, FRONTALS, CHEST = (
    Words(_LISTS[name]) for name in ("lateral", "oblique", "decubitus", "frontal", "chest")
)
PARTS = {part: Words(words) for part, words in _LISTS["parts"].items()}
CHEST_CODES = frozenset(_LISTS["chest_codes"])
VIEW_CODES = {code: view for view, codes in _LISTS["view_codes"].items() for code in codes}

LYING = re.compile(r"DECUBIT\w* (SUPIN|DORSAL)")
"""The patient lies on the back: "decubito supino", "décubitus dorsal"."""
LYING_ALONE = re.compile(
    r"^(?!.*\b(?:LAT\w*|R|L|D|S|I|DX|SX|DER\w*|IZQ\w*|DESTR\w*|SINIST\w*|DIR\w*|ESQ\w*|PRON\w*)\b)"
    r"(?=.*\bDECUBITO\b).*\bA ?P\b"
)
"""The same if no side is named: "AP decubito" is a bedside film in Spain, Italy and Brazil."""
BED_SIDE = re.compile(r"\bBED SIDE\b")
POSTERO_ANTERIOR = re.compile(
    r"\bP ?A\b|\bPOSTER(?:O|IOR)(?: TO)? ?ANTERIOR\w*|\bDORSO ?VENTRAL\w*|\bACHTER ?VOORWAARTS\w*"
)
ANTERO_POSTERIOR = re.compile(
    r"\bA ?P\b|\bANTER(?:O|IOR)(?: TO)? ?POSTERIOR\w*|\bVENTRO ?DORSAL\w*|\bVOOR ?ACHTERWAARTS\w*"
)
LATERO_LATERAL = re.compile(r"\bL L\b|\bLATERO ?LATERAL\w*")
SWIMMERS = re.compile(r"SWIMMER|SCHWIMMER")

NOT_SAID = frozenset(
    {"", "UNKNOWN", "UNSPECIFIED", "OTHER", "NONE", "NA", "N A", "ANY", "DEFAULT", "STANDARD"}
    | {"MOBILE", "BEDSIDE", "BED SIDE", "UNK"}
    | {"MISC", "UNDEFINED", "NOT SPECIFIED", "PORTABLE", "GENERAL", "X", "XX", "XXX"}
)
"""Values of BodyPartExamined that mean nothing."""

POSTURES = re.compile(
    r"\bARMS? (?:UP|DOWN|RAISED|OVERHEAD|ABOVE)\b|\bHEAD (?:UP|DOWN|OF BED)\b"
    r"|\b(?:DE|EN) PIE\b(?! (?:DER|IZQ))|\bMAIN (?:CAMPUS|HOSPITAL|SITE|BUILDING)\b"
)
"""Words that name a body part which was not examined: "de pie" is "standing" in Spanish."""
