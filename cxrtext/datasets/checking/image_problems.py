"""What is wrong with single images."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from cxrtext.datasets.checking.image_facts import ImageFacts
from cxrtext.datasets.checking.listing import ListedImage
from cxrtext.datasets.checking.problems import Kind, Problems, Severity

MISSING = Kind(
    "image-missing",
    Severity.ERROR,
    "images that are not there",
    "copy the files to where the manifest says, or remove the rows",
)
UNREADABLE = Kind(
    "image-unreadable",
    Severity.ERROR,
    "images that cannot be read",
    "do what the reason says, or remove the rows",
)
CONSTANT = Kind(
    "image-constant",
    Severity.ERROR,
    "images of one grey level only",
    "export the files again, or remove the rows: a model would learn sentences from nothing",
)
BLANK = Kind(
    "image-blank",
    Severity.WARNING,
    "images that are almost blank",
    "look at them; export them again with another window, or remove the rows",
)
DARK = Kind(
    "image-dark",
    Severity.WARNING,
    "images that are very dark",
    "look at them: the window, the depth or the inversion may be wrong",
)
BRIGHT = Kind(
    "image-bright",
    Severity.WARNING,
    "images that are very bright",
    "look at them: the window, the depth or the inversion may be wrong",
)
LATERAL = Kind(
    "view-lateral",
    Severity.WARNING,
    "lateral views",
    "remove the rows: models here are trained and read on frontal views",
)
SHAPE = Kind(
    "odd-shape",
    Severity.WARNING,
    "images much longer than wide or wider than long",
    "look at them: they may be lateral, cut, or several in one; the encoder sees the centre square",
)
SMALL = Kind(
    "image-small",
    Severity.WARNING,
    "images of less than 64 pixels a side",
    "give larger copies: what radiologists describe cannot be seen in these",
)
OTHER_MODALITY = Kind(
    "other-modality",
    Severity.WARNING,
    "DICOM files of another modality than CR, DX or RF",
    "remove the rows, unless they are radiographs with a wrong header",
)
NO_VIEW = Kind(
    "view-unknown",
    Severity.NOTE,
    "images without a view",
    "add a column view (PA, AP, LATERAL) where it is known, so that laterals can be set aside",
)
VIEW_DIFFERS = Kind(
    "view-differs",
    Severity.WARNING,
    "images whose header gives another view than the manifest",
    "see which one is right, and correct the manifest",
)

SUSPICIOUS = (CONSTANT, BLANK, DARK, BRIGHT, LATERAL, SHAPE, SMALL, OTHER_MODALITY, VIEW_DIFFERS)
"""Kinds of problem that are worth a look at the image."""

_LATERALS = {"LL", "RL", "LAT", "L", "R", "XTABLE LATERAL", "LLO", "RLO"}
_DARK, _BRIGHT = 20.0, 235.0
_LEAST_RANGE = 10
_LONGEST = 1.6
_SMALLEST = 64
_RADIOGRAPHS = {"CR", "DX", "RF", "RG", "XA", ""}


def is_lateral(view: str) -> bool:
    """Tell a lateral view by its name, as manifests and DICOM have it, in capitals."""
    return view.startswith("LAT") or view.endswith("LATERAL") or view in _LATERALS


def absent(image: ListedImage) -> str | None:
    """Say why there is no image file to read, or None where there is one."""
    path = Path(image.path)
    try:
        if path.is_file():
            return None
        return "is not a file" if path.exists() else ""
    except (OSError, ValueError):
        return "has a name that cannot be a file's"


def suspicions(image: ListedImage, facts: ImageFacts) -> list[Kind]:
    """Return what looks wrong in an image that can be read."""
    found: list[Kind] = []
    if facts.constant:
        found.append(CONSTANT)
    elif facts.high - facts.low < _LEAST_RANGE:
        found.append(BLANK)
    elif facts.mean < _DARK:
        found.append(DARK)
    elif facts.mean > _BRIGHT:
        found.append(BRIGHT)
    if is_lateral(image.view) or is_lateral(facts.view):
        found.append(LATERAL)
    elif image.view and facts.view and image.view.split()[0] != facts.view.split()[0]:
        found.append(VIEW_DIFFERS)
    short, long = sorted((facts.width, facts.height))
    if long > _LONGEST * short:
        found.append(SHAPE)
    if short < _SMALLEST:
        found.append(SMALL)
    if facts.modality not in _RADIOGRAPHS:
        found.append(OTHER_MODALITY)
    return found


def note_images(
    images: Sequence[ListedImage], facts: Sequence[ImageFacts | None], problems: Problems
) -> dict[str, list[int]]:
    """Note what is wrong with single images.

    Args:
        images: The images that are listed.
        facts: What each holds; None where it is missing.
        problems: What is wrong is added.

    Returns:
        The places, in ``images``, of what looks suspicious, by the kind's code.
    """
    suspicious: dict[str, list[int]] = defaultdict(list)
    for place, (image, fact) in enumerate(zip(images, facts, strict=True)):
        if fact is None:
            problems.add(MISSING, f"{image.name} (row {image.row})")
            continue
        if fact.fault:
            problems.add(UNREADABLE, f"{image.name} (row {image.row}): {fact.fault}")
            continue
        for kind in suspicions(image, fact):
            problems.add(kind, f"{image.name} (row {image.row})")
            suspicious[kind.code].append(place)
        if not (image.view or fact.view):
            problems.add(NO_VIEW, f"{image.name} (row {image.row})")
    return suspicious
