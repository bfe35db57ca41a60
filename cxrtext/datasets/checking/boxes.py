"""What is wrong with boxes and masks, from COCO JSON or a table."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cxrtext.datasets.checking.manifest import ListedImage
from cxrtext.datasets.checking.problems import Problems, printable
from cxrtext.datasets.checking.report import FactTable
from cxrtext.errors import DataError
from cxrtext.records import Absent, LeftOut
from cxrtext.records.boxes import NO_IMAGE, RawBox, checked_box, raw_boxes

_TOLERANCE = 1.0
_MAX_FINDINGS = 40


class _Images:
    """The images of a manifest by name."""

    def __init__(self, images: Sequence[ListedImage]) -> None:
        self.by_name = {image.name: image for image in images}
        self._by_stem = {Path(image.name).stem: image for image in images}

    def find(self, name: str) -> ListedImage | None:
        """An image; MS-CXR names it by its file's name alone."""
        return self.by_name.get(name) or self._by_stem.get(Path(name).stem)


def check_boxes(
    path: Path, images: Sequence[ListedImage], problems: Problems
) -> tuple[FactTable, dict[str, int]] | None:
    """Note what is wrong with boxes; return them by finding, and counts, unless unreadable."""
    known = _Images(images)
    findings: Counter[str] = Counter()
    phrases: set[int] = set()
    boxed: set[str] = set()
    total = absent = masks = 0
    try:
        for box in raw_boxes(path, need_text=False):
            no_box = not isinstance(box, LeftOut) and box.absent and not box.segmentation
            total, absent = total + (not no_box), absent + no_box
            if isinstance(box, LeftOut):
                problems.add("box-unreadable", f"{box.where}: {box.why}")
                continue
            findings[printable((box.finding or "").strip())[:40] or "(none)"] += 1
            if box.label_text.strip():
                phrases.add(hash(" ".join(box.label_text.lower().split())))
            else:
                problems.add("box-without-phrase", box.where)
            masks += bool(box.segmentation)
            name = _note(box, known, problems)
            if name is not None and not no_box:
                boxed.add(name)
    except DataError as error:
        problems.add("boxes-unusable", str(error))
        return None
    rows = [(name, str(count)) for name, count in findings.most_common(_MAX_FINDINGS)]
    counts = {"boxes": total, "images with boxes": len(boxed), "different phrases": len(phrases)}
    if masks:
        counts["masks"] = masks
    if absent:
        counts["phrases without a box"] = absent
    return FactTable("Boxes", ("finding", "boxes"), rows), counts


def _note(box: RawBox, known: _Images, problems: Problems) -> str | None:
    """Note what is wrong with a box; return its image."""
    named = (box.image or "").strip()
    image = known.find(named) if named else None
    name = image.name if image else None
    where = f"{box.where} ({name})" if name else box.where
    if image is None:
        problems.add(NO_IMAGE, f"{box.where}: {named or 'names none'}")
    found = checked_box(box)
    if isinstance(found, LeftOut):
        if found.what != NO_IMAGE:
            problems.add(found.what, f"{where}: {found.why}")
        return name
    if box.absent or isinstance(found, Absent):
        return name
    facts = image and image.read
    # Boxes are drawn on the pixels as the file stores them.
    actual = (facts.stored_width, facts.stored_height) if facts else None
    declared = (found.width, found.height) if found.width and found.height else None
    if actual and declared and actual != declared:
        problems.add("box-image-resized", where)
    if within := declared or actual:
        x, y, w, h = found.bbox
        low = min(x, y) < -_TOLERANCE
        if low or x + w > within[0] + _TOLERANCE or y + h > within[1] + _TOLERANCE:
            problems.add("box-outside", where)
    return name
