"""Reading the images of a manifest, from the cache where they are known."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.checking.cache import CACHE_NAME, Stamp, open_cache
from cxrtext.datasets.checking.image_facts import ImageFacts, facts_work
from cxrtext.datasets.checking.image_problems import absent
from cxrtext.datasets.checking.listing import ListedImage
from cxrtext.datasets.checking.processes import Lost, answers

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How a data set is checked.

    Args:
        reports: A table or folder of reports; by default ``reports.csv`` beside the manifest, or
            the manifest's own columns.
        labels: A table of labels; by default ``labels.csv`` beside the manifest.
        boxes: A file of boxes; by default ``boxes.json`` or ``boxes.csv`` beside the manifest.
        allow_outside: Whether images may lie outside the manifest's folder.
        pictures: Whether to draw example pictures.
        workers: Processes that read; by default one a core.
        cache: Where to keep what was seen of images; by default ``.check-data.sqlite`` beside the
            manifest.
        keep_cache: False reads every image anew and keeps nothing.
        seconds: Longest time for reading an image.
    """

    reports: Path | None = None
    labels: Path | None = None
    boxes: Path | None = None
    allow_outside: bool = False
    pictures: bool = False
    workers: int | None = None
    cache: Path | None = None
    keep_cache: bool = True
    seconds: float = 120.0


def read_images(
    images: Sequence[ListedImage],
    manifest: Path,
    options: CheckOptions,
    workers: int,
    progress: Progress,
) -> list[ImageFacts | None]:
    """Note what each image holds, from the cache or read anew.

    Args:
        images: The images.
        manifest: Beside it lies the cache.
        options: How they are read.
        workers: Processes that read.
        progress: Called as the work goes on.

    Returns:
        What each holds; None where it is missing.
    """
    facts: list[ImageFacts | None] = [None] * len(images)
    path = (options.cache or manifest.parent / CACHE_NAME) if options.keep_cache else None
    with open_cache(path, wanted=options.cache is not None) as cache:
        places: dict[str, list[int]] = defaultdict(list)
        stamps: dict[str, Stamp] = {}
        for place, image in enumerate(images):
            reason = absent(image)
            if reason is None and (stamp := _stamp(image.path)) is not None:
                stamps[image.path] = stamp
                facts[place] = cache.get(image.path, stamp)
                if facts[place] is None:
                    places[image.path].append(place)
            elif reason:
                facts[place] = ImageFacts(fault=f"{reason}; correct the row")
        done, total = len(images) - sum(map(len, places.values())), len(images)
        progress("reading images", done, total)
        for name, found in _facts(list(places), workers, options.seconds):
            cache.put(name, stamps[name], found)
            for place in places[name]:
                facts[place] = found
                done += 1
            progress("reading images", done, total)
    return facts


def _stamp(path: str) -> Stamp | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None  # removed a moment ago
    return status.st_size, status.st_mtime_ns


def _facts(paths: Sequence[str], workers: int, seconds: float) -> Iterator[tuple[str, ImageFacts]]:
    for path, answer in answers(facts_work, paths, workers, seconds=seconds):
        if isinstance(answer, Lost):
            yield path, ImageFacts(fault=f"{answer.reason}; {answer.mend}")
        else:
            yield path, ImageFacts(**answer[0])
