"""The images of a manifest: what each holds, what is wrong with it, and which are duplicates."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.admission.views import LATERAL, read_view
from cxrtext.datasets.checking.facts import FactsCache, ImageFacts, Stamp, looked_at
from cxrtext.datasets.checking.problems import Problems
from cxrtext.pausing import StageProgress

_LATERALS = {"L", "R", "LLO", "RLO"}  # in addition to what devices write
_DARK, _BRIGHT = 20.0, 235.0
_MIN_RANGE = 10
_MAX_ASPECT = 1.6
_MIN_SIDE = 64


@dataclass(slots=True)
class ListedImage:
    """An image that a manifest lists, with what its row says."""

    row: int
    name: str
    path: str
    study: str
    patient: str  # the study if no patient is given
    split: str  # "train" if none or a wrong one is given
    view: str  # as the manifest has it, in capitals; "" if unknown
    facts: ImageFacts | None = None  # what its file holds; None if the file is missing

    def __str__(self) -> str:
        return f"{self.name} (row {self.row})"

    @property
    def read(self) -> ImageFacts | None:
        """What its file holds; None if it cannot be read."""
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
    for name, facts in looked_at(list(unread), workers):
        cache.put(name, stamps[name], facts)
        for image in unread[name]:
            image.facts = facts
        done += len(unread[name])
        progress("reading images", done, total)


def _suspicions(image: ListedImage, facts: ImageFacts) -> dict[str, str]:
    """What makes an image suspicious, by the code of the kind of problem."""
    short, long = sorted((facts.width, facts.height))
    blank = facts.high - facts.low < _MIN_RANGE
    odd = not facts.constant and (blank or not _DARK <= facts.mean <= _BRIGHT)
    view = image.view
    lateral = view in _LATERALS or view.startswith("LAT") or read_view(view) == LATERAL
    lateral = lateral or facts.refused.startswith(LATERAL)
    looks = f": {facts.looks} ({facts.sure:.2f})"
    checks = {
        "image-constant": (facts.constant, ""),
        "image-exposure": (odd, ""),
        "view-lateral": (lateral, ""),
        "image-shape": (long > _MAX_ASPECT * short or short < _MIN_SIDE, ""),
        "not-admitted": (facts.refused and not lateral, f": {facts.refused}"),
        "looks-otherwise": (facts.looks and not lateral and not blank, looks),
        "burned-in": (facts.burned_in, ""),
    }
    return {code: why for code, (holds, why) in checks.items() if holds}


def note_images(images: Sequence[ListedImage], problems: Problems) -> dict[str, list[ListedImage]]:
    """Note what is wrong with single images; return the suspicious ones by the problem's code."""
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
    """Note images with equal 8-bit pixels, except constant ones; group the images by content."""
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
