"""The images of a manifest: what each holds, what is wrong with it, and which occur twice."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.admission.views import LATERAL, read_view
from cxrtext.datasets.checking.facts import FactsCache, ImageFacts, Stamp, looked_at
from cxrtext.datasets.checking.problems import Problems
from cxrtext.pausing import StageProgress

_LATERALS = {"L", "R", "LLO", "RLO"}  # beside those that a device writes
_DARK, _BRIGHT = 20.0, 235.0
_MIN_RANGE = 10
_MAX_ASPECT = 1.6
_MIN_SIDE = 64


@dataclass(slots=True)
class ListedImage:
    """An image that a manifest lists, and what its row says of it."""

    row: int
    name: str
    path: str
    study: str
    patient: str  # its patient; the study where none is given
    split: str  # its split; "train" where none or a wrong one is given
    view: str  # its view as the manifest has it, in capitals; "" where unknown
    facts: ImageFacts | None = None  # what its file holds; None where it is missing

    def __str__(self) -> str:
        return f"{self.name} (row {self.row})"

    @property
    def read(self) -> ImageFacts | None:
        """What its file holds, where that can be read."""
        return None if self.facts is None or self.facts.fault else self.facts


def read_images(
    images: Sequence[ListedImage], cache: FactsCache, workers: int, progress: StageProgress
) -> None:
    unread: dict[str, list[ListedImage]] = defaultdict(list)
    stamps: dict[str, Stamp] = {}
    for image in images:
        path = Path(image.path)
        try:
            if not path.is_file():
                if path.exists():
                    image.facts = ImageFacts(fault="is not a file; correct the row")
                continue
            status = path.stat()
        except FileNotFoundError:
            continue  # removed a moment ago
        except (OSError, ValueError):
            image.facts = ImageFacts(fault="has a name that cannot be a file's; correct the row")
            continue
        stamps[image.path] = stamp = status.st_size, status.st_mtime_ns
        image.facts = cache.get(image.path, stamp)
        if image.facts is None:
            unread[image.path].append(image)
    total = len(images)
    done = total - sum(map(len, unread.values()))
    progress("reading images", done, total)
    for name, found in looked_at(list(unread), workers):
        cache.put(name, stamps[name], found)
        for image in unread[name]:
            image.facts = found
        done += len(unread[name])
        progress("reading images", done, total)


def _suspicions(image: ListedImage, facts: ImageFacts) -> dict[str, str]:
    """By the code of their kind, what makes one look at an image."""
    short, long = sorted((facts.width, facts.height))
    blank = facts.high - facts.low < _MIN_RANGE
    odd = not facts.constant and (blank or not _DARK <= facts.mean <= _BRIGHT)
    view = image.view
    lateral = view in _LATERALS or view.startswith("LAT") or read_view(view) == LATERAL
    lateral = lateral or facts.refused.startswith(LATERAL)
    looks = f": {facts.looks} ({facts.sure:.2f})"
    found = {
        "image-constant": (facts.constant, ""),
        "image-exposure": (odd, ""),
        "view-lateral": (lateral, ""),
        "image-shape": (long > _MAX_ASPECT * short or short < _MIN_SIDE, ""),
        "not-admitted": (facts.refused and not lateral, f": {facts.refused}"),
        "looks-otherwise": (facts.looks and not lateral and not blank, looks),
        "burned-in": (facts.burned_in, ""),
    }
    return {code: why for code, (holds, why) in found.items() if holds}


def note_images(images: Sequence[ListedImage], problems: Problems) -> dict[str, list[ListedImage]]:
    """Note what is wrong with single images; return what looks suspicious, by the kind's code."""
    suspicious: dict[str, list[ListedImage]] = defaultdict(list)
    for image in images:
        if image.facts is None:
            problems.add("image-missing", str(image))
        elif image.facts.fault:
            problems.add("image-unreadable", f"{image}: {image.facts.fault}")
        else:
            for code, why in _suspicions(image, image.facts).items():
                problems.add(code, f"{image}{why}")
                suspicious[code].append(image)
    return suspicious


def note_duplicates(images: Sequence[ListedImage], problems: Problems) -> list[list[ListedImage]]:
    """Note images of equal 8-bit pixels, but constant ones; give those read, by content."""
    by_pixels: dict[str, list[ListedImage]] = defaultdict(list)
    for image in images:
        if image.read and not image.read.constant:
            by_pixels[image.read.pixel_digest].append(image)
    for first, *others in by_pixels.values():
        for other in others:
            if len({image.split for image in (first, *others)}) > 1:
                problems.add("same-image-in-two-splits", f"{first} = {other}")
            elif len({image.patient for image in (first, *others)}) > 1:
                problems.add("same-image-of-two-patients", f"{first} = {other}")
    return list(by_pixels.values())
