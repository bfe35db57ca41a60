"""The studies that came lately, those first in which a model finds a sentence most likely.

An order of work, and no finding: nothing is left out, and where anything fails the studies come in
the order in which they were received, with a reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cxrtext.errors import InputError
from cxrtext.index import IndexedImage
from cxrtext.pacs.results.finding import prompts_of
from cxrtext.pausing import Pausing
from cxrtext.records.manifest import RECEIVED
from cxrtext.service import Service
from cxrtext.service.limits import check_prompts, check_sentence

MAX_IMAGES = 2_000  # images that are looked at for one list; of more the latest


@dataclass(frozen=True, slots=True)
class Entry:
    study_id: str
    images: tuple[str, ...]
    received: datetime  # the latest of its images
    rank: float | None = None  # what it is ordered by; None where it was not scored
    probability: float | None = None  # None where no sentence that says the opposite is known
    score: float | None = None  # similarity, in [−1, 1]
    calibrated: bool = False


@dataclass(frozen=True, slots=True)
class Worklist:
    entries: tuple[Entry, ...]
    ordered: bool
    reason: str = ""  # why it is not
    complete: bool = True  # whether all studies since then are in it


def moment(text: str) -> datetime:
    """A time as ISO 8601 has it, in UTC where it names no zone (InputError)."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputError("since: give a time such as 2026-11-23T06:00:00Z, or a date") from None


def received_since(service: Service, since: datetime) -> Pausing[Worklist]:
    """The studies of which an image was received since then, in that order, not scored."""
    if RECEIVED not in service.archive.catalogue.columns():
        raise InputError(
            "no indexed image was received from a hospital system (cxrtext gateway); there "
            "is no list to order"
        )
    where = f"{RECEIVED} >= '{since.isoformat()[:19]}'"
    _, total = yield from service.archive.page(0, 1, where)
    first = max(0, total - MAX_IMAGES)
    images, _ = yield from service.archive.page(first, MAX_IMAGES, where)
    return Worklist(_studies(images, since), False, "not scored yet", complete=first == 0)


def _studies(images: Sequence[IndexedImage], since: datetime) -> tuple[Entry, ...]:
    found: dict[str, list[IndexedImage]] = {}
    for image in images:
        found.setdefault(image.study_id, []).append(image)
    entries = [
        Entry(
            study,
            tuple(image.image for image in some),
            max(_received(image, since) for image in some),
        )
        for study, some in found.items()
    ]
    return tuple(sorted(entries, key=lambda entry: entry.received))


def _received(image: IndexedImage, since: datetime) -> datetime:
    """When an image was received; where that is damaged, it is to be read first."""
    try:
        return moment(image.metadata.get(RECEIVED, ""))
    except InputError:
        return since


def check_prompt(service: Service, prompt: str) -> None:
    check_sentence(prompt)
    name, asked = prompts_of(service, prompt)
    if asked is not None:
        check_prompts({name: asked})


def ordered(service: Service, listed: Worklist, prompt: str) -> Pausing[Worklist]:
    """The list with its studies scored, best first; of several images the best counts."""
    scored = []
    for entry in listed.entries:
        best = entry
        for image in entry.images:
            one = _scored(service, entry, image, prompt)
            if best.rank is None or (one.rank or 0.0) > best.rank:
                best = one
            yield
        scored.append(best)
    best_first = sorted(scored, key=lambda entry: -(entry.rank or 0.0))  # stable: older ones first
    return replace(listed, entries=tuple(best_first), ordered=True, reason="")


def _scored(service: Service, entry: Entry, image: str, prompt: str) -> Entry:
    embedded = service.embedded(image)
    name, asked = prompts_of(service, prompt)
    score = service.ground(embedded, prompt, as_written=True).score
    if asked is None:
        return replace(entry, rank=score, score=score)
    (found,) = service.classify(embedded, {name: asked})
    # By the score: a probability that is calibrated and one that is not do not compare.
    return replace(
        entry,
        rank=found.score,
        score=score,
        probability=found.probability,
        calibrated=found.calibrated,
    )
