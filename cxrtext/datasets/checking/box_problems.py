"""What is wrong with boxes."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cxrtext.datasets.checking.box_files import FoundBox, read_boxes
from cxrtext.datasets.checking.image_facts import ImageFacts
from cxrtext.datasets.checking.listing import ListedImage
from cxrtext.datasets.checking.problems import Kind, Problems, Severity, printable
from cxrtext.datasets.checking.report import FactTable
from cxrtext.errors import DataError

UNUSABLE = Kind(
    "boxes-unusable",
    Severity.ERROR,
    "files of boxes that cannot be read",
    "do what the reason says",
)
NO_NUMBERS = Kind(
    "box-unreadable",
    Severity.ERROR,
    "boxes whose x, y, w, h are not four numbers",
    "correct or remove them",
)
NOT_POSITIVE = Kind(
    "box-size",
    Severity.ERROR,
    "boxes whose width or height is not positive",
    "correct or remove them; a box is x, y, width, height, not two corners",
)
OUTSIDE = Kind(
    "box-outside",
    Severity.ERROR,
    "boxes that reach outside their image",
    "correct them: in original pixels from the top left corner, as x, y, width, height",
)
UNKNOWN_IMAGE = Kind(
    "box-without-image",
    Severity.ERROR,
    "boxes of images that are not in the manifest",
    "see that both name images alike, or remove them",
)
RESIZED = Kind(
    "box-image-resized",
    Severity.WARNING,
    "boxes of images whose file has another size than the boxes were drawn for",
    "use the original images, or scale the boxes to the files",
)
NO_PHRASE = Kind(
    "box-without-phrase",
    Severity.WARNING,
    "boxes without a phrase",
    "add label_text, the sentence that the box illustrates: without it nothing can be grounded",
)

_TOLERANCE = 1.0
_MOST_FINDINGS = 40


class _Images:
    """The size of each image by name; None where unknown."""

    def __init__(self, images: Sequence[ListedImage], facts: Sequence[ImageFacts | None]) -> None:
        self._sizes: dict[str, tuple[int, int] | None] = {}
        self._by_stem: dict[str, str] = {}
        for image, fact in zip(images, facts, strict=True):
            known = fact is not None and not fact.fault
            self._sizes[image.name] = (fact.width, fact.height) if fact and known else None
            self._by_stem[Path(image.name).stem] = image.name

    def find(self, name: str) -> str | None:
        """The image of the manifest; MS-CXR names it by its file's name alone."""
        return name if name in self._sizes else self._by_stem.get(Path(name).stem)

    def size(self, name: str) -> tuple[int, int] | None:
        return self._sizes[name]


def check_boxes(
    path: Path,
    images: Sequence[ListedImage],
    facts: Sequence[ImageFacts | None],
    problems: Problems,
) -> tuple[FactTable, dict[str, int]] | None:
    """Read boxes and note what is wrong with them.

    Args:
        path: A COCO JSON file or a table.
        images: The images that are listed.
        facts: What each holds; None where it is missing.
        problems: What is wrong is added.

    Returns:
        Boxes by finding, and counts for the summary; None where the file cannot be read.
    """
    known = _Images(images, facts)
    findings: Counter[str] = Counter()
    phrases: set[int] = set()
    boxed: set[str] = set()
    total = 0
    try:
        for box in read_boxes(path):
            total += 1
            findings[printable(box.finding.strip())[:40] or "(none)"] += 1
            if box.phrase.strip():
                phrases.add(hash(" ".join(box.phrase.lower().split())))
            else:
                problems.add(NO_PHRASE, box.where)
            name = _note(box, known, problems)
            if name is not None:
                boxed.add(name)
    except DataError as error:
        problems.add(UNUSABLE, str(error))
        return None
    rows = [(name, str(count)) for name, count in findings.most_common(_MOST_FINDINGS)]
    counts = {"boxes": total, "images with boxes": len(boxed), "different phrases": len(phrases)}
    return FactTable("Boxes", ("finding", "boxes"), rows), counts


def _note(box: FoundBox, known: _Images, problems: Problems) -> str | None:
    """Note what is wrong with a box; return its image."""
    name = None if box.image is None else known.find(box.image)
    where = f"{box.where} ({name})" if name else box.where
    if name is None:
        problems.add(UNKNOWN_IMAGE, f"{box.where}: {box.image or 'names none'}")
    if box.bbox is None:
        problems.add(NO_NUMBERS, where)
        return name
    x, y, w, h = box.bbox
    if w <= 0 or h <= 0:
        problems.add(NOT_POSITIVE, where)
        return name
    actual = known.size(name) if name else None
    if actual and box.declared and actual != box.declared:
        problems.add(RESIZED, where)
    within = box.declared or actual
    if within is None:
        return name
    width, height = within
    low = min(x, y) < -_TOLERANCE
    if low or x + w > width + _TOLERANCE or y + h > height + _TOLERANCE:
        problems.add(OUTSIDE, where)
    return name
