"""How good a model is, in five lines kept in its checkpoint, and whether it is at chance."""

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from pathlib import Path
from typing import Literal

import numpy as np

from cxrtext.errors import CheckpointError
from cxrtext.evaluation.grounding.phrases import POINTING, SIDE_AUC
from cxrtext.evaluation.kept import Kept, KeptFile
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import (
    ALL,
    BY_CHANCE,
    GAIN,
    GROUNDING,
    HEADS,
    MEAN_OF_SENTENCES,
    OF_FINDING,
    RETRIEVAL,
    SIDES,
    ZERO_SHOT,
    Row,
    Rows,
)
from cxrtext.metrics.intervals import FEW, Area, Interval, average, quantile
from cxrtext.models import ImageTextModel
from cxrtext.models.folders import read_training
from cxrtext.page import with_interval, without_zero

FOUND = 0.7
"""The lowest AUC at which a finding counts as found, if its interval lies above chance."""
CHANCE = 0.5
FEWEST = 20
"""A finding counts as found only with at least this many images with it, and without it."""
LABELS_GIVEN, LABELS_READ = "labels given", "labels read from reports by rules"
RANK = "median rank"
EVIDENCE = "labels.evidence.csv"
"""The file beside labels that 'cxrtext label-reports' read."""
MORE = "More films"
NEVER = (
    "This model was never measured: 'cxrtext evaluate CHECKPOINT --data DIR' does, on test images "
    "with labels."
)
Curve = Sequence[tuple[int, float, Interval]]
"""For each training the number of studies, the mean AUC and its interval."""


class Measure(Kept):
    """A figure with its 95 % interval, and the figure of chance or of other patients' films."""

    name: str
    figure: str
    value: float
    low: float
    high: float
    control: float


class HowGood(KeptFile):
    """Five lines: found, found weakly, at chance, what that rests on, what more films would bring.

    ``curve``: the last line is measured.  ``at_chance``: the model is no better than chance; then,
    and if nothing was ``measured``, there is a ``warning``.  Without a measurement there are no
    lines.
    """

    FILE = "how-good.json"

    format: Literal["cxrtext how good"] = "cxrtext how good"
    version: Literal[1] = 1
    data: str = ""
    measured: bool = False
    at_chance: bool = False
    warning: str = NEVER
    lines: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    curve: bool = False


def how_good_of(evaluation: Evaluation) -> HowGood:
    """Judge a model by the 95 % intervals of an evaluation.

    A finding is found if its AUC is :data:`FOUND` or more with an interval above chance, and found
    weakly if its AUC is less.  It is not told from chance if the interval holds .5, or with fewer
    than :data:`FEWEST` images with it, or without it.  The model is at chance if the interval of
    the mean AUC holds .5 and no finding's interval lies above (Bonferroni); without labels, if
    neither retrieval nor places nor sides are above.
    """
    rows = evaluation.rows
    aucs = [rows.find(_answers(evaluation, name), name, "AUC") for name in evaluation.findings]
    known = [row for row in aucs if row and row.ends]
    known.sort(key=lambda row: -(row.value or 0))
    many = [row for row in known if _fewest(rows, row.group)[0] >= FEWEST]
    above = [row for row in many if row.low is not None and row.low > CHANCE]
    found = [row for row in above if (row.value or 0) >= FOUND]
    tasks = list(_tasks(rows))
    at_chance, why = _at_chance(evaluation, tasks)
    chance = [_figure(row) + _counts(rows, row.group, FEW) for row in known if row not in above]
    chance += [name for name, is_beyond, _ in tasks if not is_beyond]
    missing = [row.group + _counts(rows, row.group) for row in aucs if row and row not in known]
    if missing or not aucs:
        chance.append(f"not measured: {', '.join(missing) or 'findings, without labels'}")
    lines = {
        "Finds": [
            *(_figure(row) + _counts(rows, row.group) for row in found),
            *(name for name, is_beyond, _ in tasks if is_beyond),
        ],
        "Finds weakly": [
            _figure(row) + _counts(rows, row.group) for row in above if row not in found
        ],
        "At chance, or not told from it": chance,
        "Rests on": _basis(evaluation),
        MORE: ["not measured; 'learning_curve: true' in a project's recipe.yaml has it measured"],
    }
    measured = bool(known or tasks)
    warning = f"This model is at chance: {why}; do not use its answers." if at_chance else ""
    return HowGood(
        fingerprint=evaluation.fingerprint,
        data=Path(evaluation.data).name,
        measured=measured,
        at_chance=at_chance,
        warning=warning if measured else NEVER,
        lines=tuple(f"{name}: {'; '.join(items) or 'nothing'}" for name, items in lines.items()),
        measures=(
            *(_measure(row.group, "AUC", row.value, row.ends, CHANCE) for row in known),
            *(measure for *_, measure in tasks),
        ),
    )


def _measure(
    name: str, figure: str, value: float | None, ends: Interval | None, control: float
) -> Measure:
    low, high = ends or (0.0, 0.0)
    return Measure(name=name, figure=figure, value=value or 0, low=low, high=high, control=control)


def _short(value: float | None, ends: Interval | None = None, digits: int = 2) -> str:
    return without_zero(with_interval(value, ends, digits))


def _figure(row: Row) -> str:
    by = " by its head" if row.part == HEADS else ""
    return f"{row.group} {_short(row.value, row.ends)}{by}"


def _counts(rows: Rows, name: str, few: float = inf) -> str:
    """How many images have a finding, or do not, if that is fewer than ``few``."""
    count, word = _fewest(rows, name)
    return f" ({count:,} {word} it)" if count < few else ""


def _answers(evaluation: Evaluation, finding: str) -> str:
    """The part of the rows that answers for a finding: its prompts, or a better head."""
    return HEADS if finding in evaluation.by_head else ZERO_SHOT


def _fewest(rows: Rows, name: str) -> tuple[int, str]:
    """The number of images with a finding or without it, whichever is lower."""
    return min((rows.count(ZERO_SHOT, name, word), word) for word in ("with", "without"))


def _tasks(rows: Rows) -> Iterator[tuple[str, bool, Measure]]:
    """Retrieval, places and sides that have intervals, and whether they beat chance.

    The interval of places is that of their gain over films of other patients.
    """
    for direction in rows.groups(RETRIEVAL):
        row = rows.find(RETRIEVAL, direction, "MedR")
        chance = rows.value(RETRIEVAL, direction, "MedR" + BY_CHANCE)
        if row and row.ends and chance is not None:
            told = f"median rank {_short(row.value, row.ends, 0)}, chance {chance:.0f}"
            measure = _measure(f"retrieval, {direction}", RANK, row.value, row.ends, chance)
            yield f"retrieval, {direction} ({told})", row.ends[1] < chance, measure
    gain = rows.find(GROUNDING, MEAN_OF_SENTENCES, POINTING + GAIN)
    if gain and gain.ends:
        own = rows.value(GROUNDING, MEAN_OF_SENTENCES, POINTING) or 0.0
        told = f"pointing game {_short(own)}, gain over other patients " + _short(
            gain.value, gain.ends
        )
        control = own - (gain.value or 0)
        ends = (control + gain.ends[0], control + gain.ends[1])
        measure = _measure("places", "pointing game", own, ends, control)
        yield f"places ({told})", gain.ends[0] > 0, measure
    side = rows.find(SIDES, ALL, SIDE_AUC)
    if side and side.ends:
        measure = _measure("left from right", "AUC", side.value, side.ends, CHANCE)
        told = f"left from right (AUC {_short(side.value, side.ends)})"
        yield told, side.ends[0] > CHANCE, measure


def _at_chance(
    evaluation: Evaluation, tasks: Sequence[tuple[str, bool, Measure]]
) -> tuple[bool, str]:
    """Whether a model is at chance, and which figures say so."""
    if not (areas := [*_areas(evaluation).values()]):
        why = "; ".join(name for name, *_ in tasks)
        return bool(tasks) and not any(is_beyond for _, is_beyond, _ in tasks), why
    mean, level = average(areas), 1 - 0.05 / len(areas)
    above = any(area.interval(level)[0] > CHANCE for area in areas)
    why = f"mean AUC {_short(mean.value, mean.interval())} of {len(areas)} findings in "
    return mean.interval()[0] <= CHANCE and not above, f"{why}{evaluation.images:,} images"


def with_curve(good: HowGood, trained: Sequence[tuple[int, Evaluation]]) -> HowGood:
    """Add what more films would bring.

    ``trained`` holds numbers of training studies, each with its model's evaluation on the same
    images; only findings that all evaluations could measure count.
    """
    areas = [_areas(evaluation) for _, evaluation in trained]
    shared = [name for name in areas[0] if all(name in measured for measured in areas)]
    if not shared:
        return good
    means = [average([measured[name] for name in shared]) for measured in areas]
    curve = [
        (studies, mean.value, mean.interval())
        for (studies, _), mean in zip(trained, means, strict=True)
    ]
    lines = (*good.lines[:-1], f"{MORE}: {gain_of(curve)}")
    return good.model_copy(update={"lines": lines, "curve": True})


def _areas(evaluation: Evaluation) -> dict[str, Area]:
    """The AUC of each finding that could be measured."""
    compared = evaluation.rows.compared
    ranked = {
        name: compared.get(
            (f"{HEADS}: " if _answers(evaluation, name) == HEADS else "") + OF_FINDING + name
        )
        for name in evaluation.findings
    }
    return {name: area for name, area in ranked.items() if isinstance(area, Area)}


def keeping_curve(good: HowGood, folder: Path) -> HowGood:
    """Add the learning curve that the checkpoint keeps for this model, if any."""
    try:
        kept = HowGood.load(folder, good.fingerprint)
    except CheckpointError:  # an earlier model's, or damaged: it is replaced
        kept = None
    if kept is None or not kept.curve:
        return good
    return good.model_copy(update={"lines": (*good.lines[:-1], kept.lines[-1]), "curve": True})


def _basis(evaluation: Evaluation) -> list[str]:
    noted = read_training(Path(evaluation.checkpoint)).get("studies")
    folder = Path(evaluation.data)
    data = f"split '{evaluation.split}' of {folder.resolve().name}"
    labels = LABELS_READ if (folder / EVIDENCE).is_file() else LABELS_GIVEN
    return [
        f"{evaluation.images:,} images of {evaluation.patients:,} patients, {data}",
        f"trained on {noted:,} studies" if isinstance(noted, int) else "training studies not noted",
        labels,
    ]


def gain_of(curve: Curve) -> str:
    """The slope of the mean AUC over the logarithm of the studies, weighted by the intervals.

    The trainings count as independent, although they share their test images.
    """
    sizes = [studies for studies, _, _ in curve]
    errors = np.array([(high - low) / (2 * quantile(0.95)) for _, _, (low, high) in curve])
    if len(set(sizes)) < 2 or not (errors > 0).all():
        raise ValueError("a learning curve needs two numbers of studies and intervals with a width")
    values = [auc for _, auc, _ in curve]
    fit, spread = np.polyfit(np.log2(sizes), values, 1, w=1 / errors, cov="unscaled")
    slope, reach = float(fit[0]), quantile(0.95) * sqrt(spread[0, 0])
    told = _short(slope, (slope - reach, slope + reach), 3)
    shown = "" if slope > reach else ", no gain shown"
    span = f"from {min(sizes):,} to {max(sizes):,} studies"
    return f"mean AUC {told} per doubling, measured {span}{shown}"


def how_good_beside(model: ImageTextModel) -> HowGood:
    """How good a model is according to its checkpoint."""
    return HowGood.beside(model) or HowGood(fingerprint=model.fingerprint)
