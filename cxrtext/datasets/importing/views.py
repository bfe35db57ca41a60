"""Frontal or not: what the words for a view say, in the spellings of devices and of sets."""

import re
from collections.abc import Iterable

FRONTAL = ("AP", "PA", "frontal")
"""What the ``view`` column holds of an image that is kept and says its view."""
LATERAL = "lateral view"
OTHER = "other view (oblique, decubitus, axial)"
NO_VIEW = "no view information"

_DECUBITUS = {"LLD", "RLD", "DECUB", "DECUBITUS"}
_OBLIQUE = {"LAO", "RAO", "LPO", "RPO", "RLO", "LLO", "OBL", "OBLIQUE", "AXIAL", "LORDOTIC"}
_LATERAL = {"LL", "RL", "LAT", "LATERAL", "LLAT", "RLAT", "XTABLE", "LATERALE", "PROFIL"}
_PA = re.compile(r"\bP ?A\b|\bPOSTERO ?ANTERIOR\b")
_AP = re.compile(r"\bA ?P\b|\bANTERO ?POSTERIOR\b")
_NOT_LETTERS = re.compile(r"[^A-Z]+")


def read_view(text: str) -> str:
    """Say which view a word or a description names.

    Args:
        text: Such as "PA", "AP_PORTABLE", "postero-anterior" or "Left lateral decubitus".

    Returns:
        "AP", "PA", "frontal", ``LATERAL``, ``OTHER``, or "" where it does not say, or says two.
    """
    words = _NOT_LETTERS.sub(" ", text.upper()).strip()
    tokens = set(words.split())
    if tokens & (_DECUBITUS | _OBLIQUE) or "SWIMMER" in words:
        return OTHER
    lateral = bool(tokens & _LATERAL)
    pa, ap = _PA.search(words) is not None, _AP.search(words) is not None
    frontal = pa or ap or "FRONTAL" in tokens
    if lateral:
        # "PA and lateral" describes an examination of two images, not this image.
        return "" if frontal else LATERAL
    if pa and ap:
        return "frontal"
    return "PA" if pa else "AP" if ap else "frontal" if frontal else ""


def first_view(texts: Iterable[str]) -> str:
    """The view that the first text with an answer names; "" where none has one."""
    return next((view for view in map(read_view, texts) if view), "")
