"""The flow of images from what was imported to what was measured, as STARD has it.

Each step holds the images of the one before less those left out, with the reason; each finding's
labels add up to the images measured.  :class:`Flow` refuses figures that do not add up.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cxrtext.evaluation.documents.imported import Imported
from cxrtext.evaluation.documents.population import LABEL_NAMES, Counts, Population
from cxrtext.page import Block, Table, Text, markdown_block

MOST_REASONS = 6
"""Reasons that are told apart; the rest is counted together."""
OTHER_REASONS = "other reasons"
NO_REASON = "not measured, with no reason noted"
_NAMED = re.compile(r"^[^:]*([/\\]|\.(png|jpe?g|dcm|dicom)\b)[^:]*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """Images at one point, and those that go no further, by reason; ``noun`` is what they are."""

    title: str
    counts: Counts
    left_out: Mapping[str, Counts] = field(default_factory=dict)
    noun: str = "image"

    @property
    def text(self) -> str:
        return self.counts.text(self.noun)


@dataclass(frozen=True, slots=True)
class Task:
    """What a measurement rests on: lines of (what, how many), of all images measured."""

    title: str
    lines: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Flow:
    """Steps from the first to the images measured; their labels by finding; and tasks.

    ``labels[finding]`` counts images by "with", "without", "uncertain" and "missing".
    """

    steps: Sequence[Step]
    labels: Mapping[str, Mapping[str, int]]
    tasks: Sequence[Task]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for one, after in zip(self.steps, self.steps[1:], strict=False):
            left = sum(part.images for part in one.left_out.values())
            if one.counts.images - left != after.counts.images:
                raise ValueError(
                    f"{one.title}: {one.counts.images} images less {left} left out are not the "
                    f"{after.counts.images} of '{after.title}'"
                )
        measured = self.steps[-1].counts.images
        for finding, numbers in self.labels.items():
            if sum(numbers.values()) != measured:
                raise ValueError(f"{finding}: its labels are not {measured}: {dict(numbers)}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": [asdict(one) for one in self.steps],
            "labels": {name: dict(numbers) for name, numbers in self.labels.items()},
            "tasks": [{"title": one.title, "lines": dict(one.lines)} for one in self.tasks],
            "notes": list(self.notes),
        }


def flow_of(
    population: Population,
    split: str,
    *,
    imported: Imported | None = None,
    rejects: Mapping[str, str] | None = None,
    validation: bool = False,
    tasks: Sequence[Task] = (),
    first: Step | None = None,
) -> Flow:
    """Follow the images of a population, of which a split was measured, or "all".

    ``rejects`` are names of images that could not be read, and why; ``validation`` says whether
    images of split "val" chose thresholds; ``first`` is a step before all others.
    """
    everything = population.counts(population.all_rows)
    notes: list[str] = []
    steps = [] if first is None else [first]
    if imported is not None and population.whole:
        left_out = {why: Counts(n) for why, n in _fewer(imported.left_out).items()}
        total = everything.images + sum(imported.left_out.values())
        steps.append(Step("What the import looked at", Counts(total), left_out, "file or row"))
        if not imported.unchanged:
            notes.append(
                "The manifest was changed after the import, so the first step counts what the "
                "manifest holds now and what the import left out."
            )
    title = "Images of the manifest" if population.whole else "Images of the file of predictions"
    steps += _splits(population, split, title, everything, validation)
    at = population.measured
    failed = _reasons(population, split, rejects or {})
    steps[-1] = replace(steps[-1], left_out={**steps[-1].left_out, **failed})
    steps.append(Step("Images measured", population.counts(at)))
    labels = {
        finding: {name: int((values[at] == value).sum()) for value, name in LABEL_NAMES.items()}
        for finding, values in population.labels.items()
    }
    return Flow(steps, labels, tasks, notes)


def _splits(
    population: Population, split: str, title: str, everything: Counts, validation: bool
) -> list[Step]:
    """All images, and those of the split that is measured; one step where that is all."""
    if split == "all" or population.split_names == [split]:
        return [Step(title, everything)]
    left_out = {}
    for name in population.split_names:
        if name != split:
            use = "chose thresholds and calibration" if validation and name == "val" else ""
            why = f"split {name}: {use or 'not measured'}"
            left_out[why] = population.counts(population.of_split(name))
    own = population.counts(population.of_split(split))
    return [Step(title, everything, left_out), Step(f"Images of split {split}", own)]


def _reasons(population: Population, split: str, rejects: Mapping[str, str]) -> dict[str, Counts]:
    """Images of the split that were not measured, by reason."""
    asked = population.all_rows if split == "all" else population.of_split(split)
    failed = (population.images.names[at] for at in np.flatnonzero(asked & ~population.measured))
    counts = Counter(
        f"cannot be read: {reason_class(rejects[name])}" if name in rejects else NO_REASON
        for name in failed
    )
    return {why: Counts(n) for why, n in _fewer(dict(counts.most_common())).items()}


def reason_class(reason: str) -> str:
    """A reason without what stands in it of one file: no path, no name, no number.

    >>> reason_class("/data/a.png: is 12 x 9 pixels; send a larger image")
    'is n x n pixels'
    >>> reason_class("John Doe.png: cannot be decoded")
    'cannot be decoded'
    """
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "…", reason.partition(";")[0])
    # What it is about stands before a colon; names may hold spaces, and be those of people.
    text = _NAMED.sub("", text)
    text = re.sub(r"\S*/\S*:?", "", text)
    text = " ".join(re.sub(r"\d+", "n", text).split()).strip(" :")
    return text[:90] or "no reason given"


def _fewer(counts: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda one: -one[1])
    if len(ordered) <= MOST_REASONS:
        return dict(ordered)
    kept = dict(ordered[: MOST_REASONS - 1])
    kept[OTHER_REASONS] = kept.get(OTHER_REASONS, 0) + sum(n for _, n in ordered[len(kept) :])
    return kept


def flow_blocks(flow: Flow) -> list[Block]:
    steps = [["", "how many"]]
    for step in flow.steps:
        steps.append([step.title, step.text])
        steps += [
            [f"\u2003left out, {why}", some.text(step.noun)] for why, some in step.left_out.items()
        ]
    strong = frozenset(at for at, (name, _) in enumerate(steps) if name[:1] not in ("", "\u2003"))
    blocks: list[Block] = [Table(steps, "Flow of images", strong)]
    if flow.labels:
        names = list(LABEL_NAMES.values())
        rows = [["finding", *names, "sum"]]
        for finding, numbers in flow.labels.items():
            counts = [*(numbers[name] for name in names), sum(numbers.values())]
            rows.append([finding, *(f"{count:,}" for count in counts)])
        blocks.append(Table(rows, "Labels of the images measured"))
    for task in flow.tasks:
        lines = [[what, f"{number:,}"] for what, number in task.lines]
        blocks.append(Table([["", "how many"], *lines], task.title))
    return [*blocks, *map(Text, flow.notes)]


def flow_markdown(flow: Flow) -> str:
    """A flow as a document: a Mermaid diagram of the steps, and the tables that say the same."""
    lines = ["flowchart TD"]
    for at, step in enumerate(flow.steps):
        lines.append(f'    step{at}["{_label(step.title, step.text)}"]')
        if step.left_out:
            total = sum(part.images for part in step.left_out.values())
            reasons = (f"{why}: {some.text(step.noun)}" for why, some in step.left_out.items())
            lines.append(f'    step{at} --> out{at}["{_label(f"Left out: {total:,}", *reasons)}"]')
        if at:
            lines.append(f"    step{at - 1} --> step{at}")
    diagram = "\n".join(lines)
    tables = "\n\n".join(map(markdown_block, flow_blocks(flow)))
    return f"# Flow of images\n\n```mermaid\n{diagram}\n```\n\n{tables}\n"


def _label(*lines: str) -> str:
    """Lines in a box of Mermaid, in which quotes and brackets of HTML have codes."""
    return "<br>".join(
        line.replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;") for line in lines
    )
