"""Which images are shown in the report, and their small pictures."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cxrtext.datasets.checking.image_facts import ImageFacts, thumbnail_work
from cxrtext.datasets.checking.image_problems import SUSPICIOUS
from cxrtext.datasets.checking.listing import ListedImage
from cxrtext.datasets.checking.processes import Lost, answers
from cxrtext.datasets.checking.report import Picture, PictureGroup
from cxrtext.records.manifest import SPLITS

SIDE = 160
"""Longest side of a picture, in pixels."""

EXAMPLES = 6
"""Pictures of each view and split, and of each suspicion."""

_MOST_GROUPS = 6


@dataclass(frozen=True, slots=True)
class Wanted:
    """Images to be shown together.

    Args:
        title: What they have in common.
        places: Which of the images.
    """

    title: str
    places: list[int]


def _spread(places: Sequence[int], most: int = EXAMPLES) -> list[int]:
    """Some of many, evenly from the first to the last."""
    if len(places) <= most:
        return list(places)
    step = (len(places) - 1) / (most - 1)
    return [places[round(step * i)] for i in range(most)]


def choose_pictures(
    images: Sequence[ListedImage],
    facts: Sequence[ImageFacts | None],
    suspicious: Mapping[str, Sequence[int]],
    groups: Sequence[Sequence[int]],
    pairs: Sequence[tuple[int, int]],
) -> list[Wanted]:
    """Choose what is shown: what looks suspicious, then a few of each split and view.

    Args:
        images: The images that are listed.
        facts: What each holds.
        suspicious: Places of suspicious images, by kind of problem.
        groups: Images of equal content.
        pairs: Images that are almost equal.
    """
    wanted = [
        Wanted(kind.title, list(suspicious[kind.code][:EXAMPLES]))
        for kind in SUSPICIOUS
        if suspicious.get(kind.code)
    ]
    if groups:
        equal = [place for group in groups[: EXAMPLES // 2] for place in group[:2]]
        wanted.append(Wanted("images with the same content", equal))
    if pairs:
        near = [place for pair in pairs[: EXAMPLES // 2] for place in pair]
        wanted.append(Wanted("pairs of images that look almost the same", near))
    kinds: dict[str, list[int]] = defaultdict(list)
    for place, (image, fact) in enumerate(zip(images, facts, strict=True)):
        if fact is not None and not fact.fault:
            kinds[f"{image.split}, {image.view or fact.view or 'view unknown'}"].append(place)
    largest = sorted(kinds, key=lambda name: -len(kinds[name]))[:_MOST_GROUPS]
    largest.sort(key=lambda name: (SPLITS.index(name.split(",")[0]), -len(kinds[name])))
    wanted += [Wanted(name, _spread(kinds[name])) for name in largest]
    return wanted


def draw_pictures(
    wanted: Sequence[Wanted], images: Sequence[ListedImage], workers: int, seconds: float
) -> list[PictureGroup]:
    """Draw small pictures in processes of their own; what cannot be drawn is left out."""
    paths = dict.fromkeys(images[place].path for one in wanted for place in one.places)
    drawn: dict[str, bytes] = {}
    tasks = ((path, SIDE) for path in paths)
    for (path, _), answer in answers(thumbnail_work, tasks, workers, seconds=seconds):
        if not isinstance(answer, Lost) and answer[1]:
            drawn[path] = bytes(answer[1])
    return [
        PictureGroup(
            one.title,
            [
                Picture(image.name, f"row {image.row}, {image.split}", drawn[image.path])
                for image in (images[place] for place in one.places)
                if image.path in drawn
            ],
        )
        for one in wanted
    ]
