"""Options and definitions of experiments: the papers' rows are read from ``papers/*.yaml``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from cxrtext.errors import ConfigError
from cxrtext.files.yaml_text import read_own

if TYPE_CHECKING:
    from cxrtext.training import Listener

EXPERIMENTS: Mapping[str, str] = {
    "when-it-helps": "when a correction for false negatives helps, on simulated pairs",
    "table1": "every correction for false negatives, trained with an equal budget",
    "cifar10-r": "class probabilities for each image, CIFAR-10 with unequally common classes",
    "positive-debiased": "a loss corrected for false positives, CIFAR-10",
    "conditional-uniformity": "losses that know of metadata, CIFAR-10",
    "fair-cclk": "features that leave out a color, ColorMNIST",
    "hardneg-cclk": "hard negatives by kernels, CIFAR-10",
}
"""Names, and what they show; all but the first have their rows in ``papers/NAME.yaml``."""
Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExperimentOptions:
    """Options for an experiment.

    ``scale`` says how much data and how long: "smoke", "cpu", "gpu" or "paper", for table 1 also
    "films".  ``out`` is by default ``experiments/<name>-<scale>``.  ``data`` is a data folder for
    table 1, by default phantoms drawn into ``out``, and an ``.npz`` of CIFAR-10 or MNIST for small
    images.  ``features`` of a backbone (``cxrtext encode``) replace an image encoder pre-trained
    here.  ``seeds`` is the number of trainings for each row, by default the scale's.
    """

    scale: str = "cpu"
    out: Path | None = None
    data: Path | None = None
    features: Path | None = None
    seeds: int | None = None
    rows: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExperimentListener:
    """Is told lines of text, and progress as (stage, done, total, unit)."""

    say: Callable[[str], None] = lambda _: None
    progress: Callable[[str, int, int, str], None] = lambda _stage, _done, _total, _unit: None

    def counting(self, stage: str, unit: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(stage, done, total, unit)

    def training(self, name: str) -> "Listener":
        from cxrtext.training import Listener

        return Listener(
            say=self.say,
            step=lambda report, total: self.progress(name, report.step, total, "steps"),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The page as text, the content of ``table.json``, and a line for each failed row and seed."""

    page: str
    data: dict[str, Any]
    written: tuple[Path, ...]
    failed: tuple[str, ...] = ()


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measure(Part):
    """A column of a table; ``smaller``: whether a smaller figure is better.

    Two of the paper's figures count as ordered if they differ by more than ``apart``, about the
    paper's own deviation over trainings; without ``ordered``, they never do.  ``table`` is the
    title of another table for this column; unless ``compared``, it is shown but not compared with
    the baseline's.  It lies between 0 and ``most``; None means no largest value.
    """

    name: str
    digits: int = 1
    smaller: bool = False
    apart: float = 0.0
    ordered: bool = True
    table: str = ""
    compared: bool = True
    most: float | None = None


class Row(Part):
    """One way to train: how it differs from the other rows of its group.

    ``paper`` has the paper's figures by measure; ``scales`` are those that train it without
    ``--rows`` (None: all).  ``needs`` is a file of the data folder that it cannot be trained
    without.
    """

    name: str
    title: str
    objective: dict[str, Any]
    settings: dict[str, Any] = {}
    paper: dict[str, float] = {}
    scales: tuple[str, ...] | None = None
    needs: str = ""


class Claim(Part):
    better: str
    worse: str
    measure: str


class Group(Part):
    """The rows of one table: the same data, the same budget, the same probes.

    ``data`` is the training set, ``probe`` how features are measured; both are "" for table 1.
    The first measure is the main one; rows are compared with the ``baseline``.
    """

    name: str
    title: str
    data: str = ""
    probe: str = ""
    baseline: str
    measures: tuple[Measure, ...]
    settings: dict[str, Any] = {}
    rows: tuple[Row, ...]


class Scale(Part):
    """How much data, and how long.

    ``settings`` are for every training, ``groups`` for single groups by name; if some groups are
    named, the others are not trained.  For small images, ``train`` and ``test`` are the numbers of
    images to train and measure on (None: all); probes have ``probe_epochs`` with Adam and
    ``probe_steps`` with L-BFGS.  For table 1, ``studies`` phantoms of ``size`` pixels are drawn (0:
    data must be given); ``language_model`` has arguments of ``pretrain_text``, or is a hub id; with
    a ``start``, rows continue from that training on an image encoder trained on words of findings
    (``image``); with several ``starts``, seed s uses the (s modulo ``starts``)-th.
    """

    settings: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    seeds: int = 1
    device: str = "auto"
    train: int | None = None
    test: int | None = None
    probe_epochs: int = 100
    probe_steps: int = 500
    studies: int = 0
    size: int = 0
    split: str = "test"
    language_model: dict[str, Any] | str = ""
    image: dict[str, Any] = {}
    start: dict[str, Any] = {}
    starts: int = 1


class Experiment(Part):
    """An experiment; its groups are the tables.

    ``given`` is what ``--data`` names; ``settings`` is the paper's recipe, where every scale
    starts; ``claims`` are the paper's, besides those that follow from its figures; ``different``
    are lines about differences from the paper; ``prompts`` are several phrasings of each finding,
    for table 1.
    """

    title: str
    source: str
    question: str
    given: Literal["cifar10", "mnist", "pairs"]
    settings: dict[str, Any] = {}
    scales: dict[str, Scale]
    groups: tuple[Group, ...]
    claims: tuple[Claim, ...] = ()
    different: tuple[str, ...] = ()
    prompts: dict[str, dict[str, tuple[str, ...]]] = {}

    def scale(self, name: str) -> Scale:
        if name not in self.scales:
            raise ConfigError(f"--scale {name}: is not one of {', '.join(self.scales)}")
        return self.scales[name]

    def choose(self, scale: str, names: Sequence[str] | None) -> tuple[tuple[Group, Row], ...]:
        """The rows with these names, by default the scale's, in the order of the tables."""
        groups = self.scale(scale).groups
        rows = {
            row.name: (group, row)
            for group in self.groups
            for row in group.rows
            if not groups or self.given != "pairs" or group.name in groups
        }
        if names is None:
            return tuple(
                (group, row)
                for group, row in rows.values()
                if row.scales is None or scale in row.scales
            )
        for name in names or ("",):
            if name not in rows:
                raise ConfigError(f"--rows: no row '{name}'; there are {', '.join(rows)}")
        return tuple(pair for name, pair in rows.items() if name in names)

    def all_claims(self) -> tuple[Claim, ...]:
        """The orders that the paper claims: by the figures of each table, then in words."""
        ordered = [c for group in self.groups for c in claims_of(group.rows, group.measures)]
        return (*ordered, *self.claims)


def load_experiment(name: str) -> Experiment:
    return Experiment.model_validate(read_own(Path(__file__).parent / "papers" / f"{name}.yaml"))


def claims_of(rows: Sequence[Row], measures: Iterable[Measure]) -> Iterator[Claim]:
    for measure in measures:
        known = [row for row in rows if measure.ordered and measure.name in row.paper]
        for one, other in combinations(known, 2):
            first, second = one.paper[measure.name], other.paper[measure.name]
            if abs(first - second) > measure.apart:
                ahead = (first > second) != measure.smaller
                better, worse = (one, other) if ahead else (other, one)
                yield Claim(better=better.name, worse=worse.name, measure=measure.name)


def merged(*layers: Settings) -> dict[str, Any]:
    """Merge settings, also inside sections; an objective is replaced as a whole."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            inside = isinstance(value, Mapping) and key != "objective"
            result[key] = merged(result.get(key, {}), value) if inside else value
        # The later of the two decides how long.
        for key, other in (("steps", "epochs"), ("epochs", "steps")):
            if key in layer:
                result.pop(other, None)
    return result
