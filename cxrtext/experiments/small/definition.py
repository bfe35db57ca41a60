"""What an experiment on small images is made of; plain values, so that listing needs no torch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCALES = ("smoke", "cpu", "gpu", "paper")

Settings = Mapping[str, Any]
"""Fields of ``ViewSettings``; ``objective`` and ``augmentation`` are mappings themselves, and
``epochs`` may stand in place of ``steps``."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a table.

    Args:
        name: As it is shown.
        digits: After the point.
        smaller: Whether a smaller figure is better.
        apart: By how much two of the paper's figures must differ to be an order, about its own
            deviation over trainings.
    """

    name: str
    digits: int = 1
    smaller: bool = False
    apart: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A row: one way to train.

    Args:
        name: As ``--rows`` takes it; also the name of its folder.
        title: As the table shows it.
        settings: In what it differs from the other rows of its group.
        paper: The paper's figures by measure.
        scales: At which it is trained unless ``--rows`` says otherwise.
    """

    name: str
    title: str
    settings: Settings
    paper: Mapping[str, float] = field(default_factory=dict)
    scales: tuple[str, ...] = SCALES


@dataclass(frozen=True, slots=True)
class Claim:
    """That one row is better than another; what the paper shows in a figure or says.

    Args:
        better: A row.
        worse: Another.
        measure: By which.
    """

    better: str
    worse: str
    measure: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that stand in one table: the same data, the same budget, the same probes.

    Args:
        name: Of the group.
        title: Above its table.
        data: The set that is trained on, as ``data_sets`` names it.
        probe: How features are measured, as ``probing`` names it.
        measures: The columns; the first is the main one.
        baseline: The row that the others are compared with.
        trials: The rows.
        settings: What they share beyond the scale.
    """

    name: str
    title: str
    data: str
    probe: str
    measures: tuple[Measure, ...]
    baseline: str
    trials: tuple[Trial, ...]
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much data, and how long.

    Args:
        settings: What every training of the experiment has.
        groups: What those of a group have beside, by its name.
        train: Images of a given set that are trained on, equal numbers a class; None for all.
        test: Images that are measured on; None for all.
        studies: Phantoms to draw.
        side: Pixels along their sides, 32 or 64.
        epochs: Of the probe, where it is trained with Adam.
        steps: Of the probe, where it is fitted by L-BFGS.
        resamples: Of the bootstrap.
        device: Where to train: "cpu", or "auto" for a GPU where there is one.
    """

    settings: Settings
    groups: Mapping[str, Settings] = field(default_factory=dict)
    train: int | None = None
    test: int | None = None
    studies: int = 0
    side: int = 32
    epochs: int = 100
    steps: int = 500
    resamples: int = 1000
    device: str = "auto"


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment on small images.

    Args:
        name: As the command takes it.
        summary: In a few words, for the list of experiments.
        title: Above its page.
        source: The paper and its section.
        question: What the paper claims, as a question.
        given: The set that ``--data`` must name, or None.
        groups: Its tables.
        scales: By name.
        settings: The paper's recipe, which every scale starts from.
        claims: Of the paper, beside those that follow from its figures.
        different: In what this is not the paper's experiment; a line each.
    """

    name: str
    summary: str
    title: str
    source: str
    question: str
    given: Literal["cifar10", "mnist"] | None
    groups: tuple[Group, ...]
    scales: Mapping[str, Scale]
    settings: Settings
    claims: tuple[Claim, ...] = ()
    different: tuple[str, ...] = ()

    def trials(self) -> Iterator[tuple[Group, Trial]]:
        """Every row with its group, in the order of the tables."""
        for group in self.groups:
            for trial in group.trials:
                yield group, trial

    def all_claims(self) -> tuple[Claim, ...]:
        """What the paper tells apart: within each table by its figures, then as it says."""
        found = [claim for group in self.groups for claim in _by_figures(group)]
        return (*found, *self.claims)


def _by_figures(group: Group) -> Iterator[Claim]:
    for measure in group.measures:
        known = [trial for trial in group.trials if measure.name in trial.paper]
        for i, one in enumerate(known):
            for other in known[i + 1 :]:
                first, second = one.paper[measure.name], other.paper[measure.name]
                if abs(first - second) > measure.apart:
                    ahead = (first > second) != measure.smaller
                    pair = (one, other) if ahead else (other, one)
                    yield Claim(pair[0].name, pair[1].name, measure.name)


def merged(*layers: Settings) -> dict[str, Any]:
    """Settings over settings, also inside ``augmentation``; an objective is taken whole."""
    found: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if key == "augmentation":
                found[key] = {**found.get(key, {}), **value}
            else:
                found[key] = value
        # The later of the two says how long.
        for key, other in (("steps", "epochs"), ("epochs", "steps")):
            if key in layer:
                found.pop(other, None)
    return found
