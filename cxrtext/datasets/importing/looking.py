"""The pixels of found images, looked at in processes of their own before any image is kept."""

import os
from collections.abc import Iterator
from pathlib import Path

from cxrtext.datasets.checking.facts import FactsCache, ImageFacts, Stamp, facts_work
from cxrtext.datasets.importing.joining import Tell
from cxrtext.datasets.importing.resolving import FoundImages, Seen
from cxrtext.images.sandbox import ProcessLost, answers

SECONDS = 120.0  # longest time for an image
FEW = 8  # images for which another process is not worth its start


def look_at(
    found: FoundImages, out: Path, cache: FactsCache, workers: int | None, tell: Tell
) -> dict[int, Seen]:
    """Look at every image, or remember it from a run before.

    Args:
        out: The data folder.  What is seen is kept under the image's name there, so that
            ``check-data`` finds it, and no other name is kept.

    Returns:
        What was seen, by number.
    """
    seen: dict[int, Seen] = {}
    total = len(found)
    home = out.resolve()
    unread: list[tuple[int, str, Stamp]] = []

    def tasks() -> Iterator[str]:
        for number, _, _ in unread:
            yield str(found[number].image.path)

    for one in found:
        try:
            status = one.image.path.stat()
        except OSError as error:
            seen[one.number] = Seen(
                fault=f"cannot be read ({error.strerror}); run the import again"
            )
            continue
        stamp = status.st_size, status.st_mtime_ns
        kept = str(home / one.name)
        known = cache.get(kept, stamp)
        if known is None:
            unread.append((one.number, kept, stamp))
        else:
            seen[one.number] = _seen(known)
    tell("looking at images", len(seen), max(total, 1))
    several = min(workers or os.cpu_count() or 1, 1 + len(unread) // FEW)
    looked = answers(facts_work, tasks(), several, seconds=SECONDS)
    for (number, kept, stamp), (_, answer) in zip(unread, looked, strict=True):
        if isinstance(answer, ProcessLost):
            facts = ImageFacts(fault=answer.line("read"))
        else:
            facts = ImageFacts(**answer[0])
        cache.put(kept, stamp, facts)
        seen[number] = _seen(facts)
        tell("looking at images", len(seen), total)
    return seen


def _seen(facts: ImageFacts) -> Seen:
    pixels = 0 if facts.constant or facts.fault else int(facts.pixel_digest[:16], 16)
    return Seen(pixels, facts.fault, facts.looks, facts.sure)
