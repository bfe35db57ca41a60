"""What an experiment is asked, made of and comes to: plain values, so listing needs no torch."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from cxrtext.errors import ConfigError

SCALES = ("smoke", "cpu", "gpu", "paper")
Settings = Mapping[str, Any]
"""Fields of ``ViewSettings``; ``objective`` and ``augmentation`` are mappings themselves, and
``epochs`` may stand in place of ``steps``."""


@dataclass(frozen=True, slots=True)
class ExperimentOptions:
    """What is asked of an experiment.

    ``scale`` says how much data and how long, one of ``SCALES``; of table 1 and its sweep also
    "films".  ``out`` is by default ``experiments/<name>-<scale>``.  ``data`` is a data folder, by
    default phantoms drawn into ``out``; of the experiments on small images, an ``.npz`` of CIFAR-10
    or MNIST.  ``features`` are of a backbone (``cxrtext encode``), in place of an image encoder
    that is pre-trained here.  ``seeds`` is the number of trainings a row, by default the scale's;
    ``parallel`` of those at the same time.
    """

    scale: str = "cpu"
    out: Path | None = None
    data: Path | None = None
    features: Path | None = None
    seeds: int | None = None
    rows: tuple[str, ...] | None = None
    parallel: int = 1


@dataclass(frozen=True, slots=True)
class ExperimentListener:
    """Hears lines of text, and progress as (stage, done, total, unit)."""

    say: Callable[[str], None] = lambda _: None
    progress: Callable[[str, int, int, str], None] = lambda _stage, _done, _total, _unit: None

    def counting(self, stage: str, unit: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(stage, done, total, unit)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The page as text, what stands in ``table.json``, and a line a row and seed that failed."""

    page: str
    data: dict[str, Any]
    written: tuple[Path, ...]
    failed: tuple[str, ...]


def split_names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a table; ``smaller`` is whether a smaller figure is better.

    Two of the paper's figures must differ by more than ``apart``, about its own deviation over
    trainings, to be an order.  The paper prints ``paper_digits``, by default as many as we do.
    ``table`` is the title of a further table that it stands in; one that is not ``compared`` is
    shown and not subtracted from the baseline's.  It lies between 0 and ``most``,
    None where it has no largest value.
    """

    name: str
    digits: int = 1
    smaller: bool = False
    apart: float = 0.0
    paper_digits: int | None = None
    table: str = ""
    compared: bool = True
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A row: one way to train, in what it differs from the other rows of its group.

    ``name`` is as ``--rows`` takes it, ``paper`` the paper's figures by measure, ``scales`` those
    at which it is trained unless ``--rows`` says otherwise.  Of table 1, ``needs`` is a file of the
    data folder without which it cannot be trained, ``column`` how it goes on from a common start,
    ``eta`` the a and k of its sentences' class probabilities, None for the default.
    """

    name: str
    title: str
    settings: Settings
    paper: Mapping[str, float] = field(default_factory=dict)
    scales: tuple[str, ...] = SCALES
    needs: str = ""
    column: str = ""
    eta: tuple[float, float] | None = None


def choose(trials: Sequence[Trial], names: Sequence[str] | None) -> tuple[Trial, ...]:
    """The rows of some names, in the order of the table; None is all."""
    if names is None:
        return tuple(trials)
    known = [trial.name for trial in trials]
    if not names:
        raise ConfigError(f"--rows: names no row; there are {', '.join(known)}")
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"--rows: there is no row '{unknown[0]}'; there are {', '.join(known)}")
    return tuple(trial for trial in trials if trial.name in names)


@dataclass(frozen=True, slots=True)
class Claim:
    better: str
    worse: str
    measure: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that stand in one table: the same data, the same budget, the same probes.

    ``data`` is the set that is trained on, as ``sets`` names it, ``probe`` how features are
    measured, as ``simclr.probes`` names it; both "" of table 1.  The first measure is the main one;
    rows are compared with the ``baseline``.  ``settings`` are what the rows share beyond the scale.
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

    ``settings`` are of every training, ``groups`` of those of a group, by its name.  Of a given
    set ``train`` images are trained on, equal numbers a class, and ``test`` measured on (None:
    all).  ``studies`` phantoms are drawn, of ``side`` pixels (32 or 64).  Probes have ``epochs``
    where they are trained with Adam and ``steps`` where they are fitted by L-BFGS.
    """

    settings: Settings
    groups: Mapping[str, Settings] = field(default_factory=dict)
    train: int | None = None
    test: int | None = None
    studies: int = 0
    side: int = 32
    epochs: int = 100
    steps: int = 500
    device: str = "auto"


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment on small images, its tables being the groups.

    ``given`` is the set that ``--data`` must name; ``settings`` the paper's recipe, which every
    scale starts from; ``claims`` those of the paper beside what follows from its figures;
    ``different`` lines on what is not as in the paper.
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
        return ((group, trial) for group in self.groups for trial in group.trials)

    def all_claims(self) -> tuple[Claim, ...]:
        """What the paper orders: within each table by its figures, then as it says."""
        found = [c for group in self.groups for c in claims_of(group.trials, group.measures)]
        return (*found, *self.claims)


def claims_of(trials: Sequence[Trial], measures: Iterable[Measure]) -> Iterator[Claim]:
    for measure in measures:
        known = [trial for trial in trials if measure.name in trial.paper]
        for one, other in combinations(known, 2):
            first, second = one.paper[measure.name], other.paper[measure.name]
            if abs(first - second) > measure.apart:
                ahead = (first > second) != measure.smaller
                better, worse = (one, other) if ahead else (other, one)
                yield Claim(better.name, worse.name, measure.name)


def merged(*layers: Settings) -> dict[str, Any]:
    """Settings over settings, also inside ``augmentation``; an objective is taken whole."""
    found: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            found[key] = {**found.get(key, {}), **value} if key == "augmentation" else value
        # The later of the two says how long.
        for key, other in (("steps", "epochs"), ("epochs", "steps")):
            if key in layer:
                found.pop(other, None)
    return found
