"""Which view a word, a text, a code or an orientation names."""

from collections.abc import Sequence

from cxrtext.datasets.admission.words import (
    ANTERO_POSTERIOR,
    BED_SIDE,
    DECUBITUS,
    FRONTALS,
    LATERALS,
    LATERO_LATERAL,
    LYING,
    LYING_ALONE,
    OBLIQUES,
    POSTERO_ANTERIOR,
    SWIMMERS,
    VIEW_CODES,
    plain_words,
)

FRONTAL = ("AP", "PA", "frontal")
"""What the ``view`` column says of a kept image with a known view."""
LATERAL = "lateral view"
OTHER = "other view (oblique, decubitus, axial)"

_AXES = {**dict.fromkeys("LR", "x"), **dict.fromkeys("AP", "y"), **dict.fromkeys("FH", "z")}


def read_view(text: str) -> str:
    """Which view a word or a text names, such as "AP_PORTABLE" or "Thorax seitlich".

    One of `FRONTAL`, ``LATERAL``, ``OTHER``, or "" if it names none or two.
    """
    words = BED_SIDE.sub("BEDSIDE", plain_words(text))
    if OBLIQUES.within(words) or SWIMMERS.search(words):
        return OTHER
    if DECUBITUS.within(words):
        return "AP" if LYING.search(words) or LYING_ALONE.search(words) else OTHER
    lateral = LATERALS.within(words) or LATERO_LATERAL.search(words) is not None
    pa, ap = POSTERO_ANTERIOR.search(words), ANTERO_POSTERIOR.search(words)
    frontal = pa or ap or FRONTALS.within(words)
    if lateral:
        # "PA and lateral" describes an examination of two images, not this image.
        return "" if frontal else LATERAL
    if pa and ap:
        return "frontal"
    return "PA" if pa else "AP" if ap else "frontal" if frontal else ""


def coded_view(values: Sequence[str]) -> str:
    """The view of a View Code Sequence, given as its codes and meanings in one list."""
    texts = [VIEW_CODES.get(value, value) for value in values]
    return next(filter(None, map(read_view, texts)), "")


def oriented_view(orientation: Sequence[str]) -> str:
    r"""The view of a PatientOrientation: L\F is frontal, A\F is lateral; "" if it is not valid.

    The first value says where the rows point, the second where the columns do.  The first letter
    of each counts; a direction between left-right and front-back is oblique.
    """
    if len(orientation) != 2:
        return ""
    row, column = (value.strip().upper() for value in orientation)
    axes = {_AXES.get(row[:1]), _AXES.get(column[:1])}
    if None in axes or len(axes) < 2:
        return ""
    for value in (row, column):
        if {_AXES.get(letter) for letter in value[:2]} == {"x", "y"}:
            return OTHER
    return "frontal" if axes == {"x", "z"} else LATERAL if axes == {"y", "z"} else OTHER
