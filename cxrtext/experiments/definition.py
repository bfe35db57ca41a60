"""What an experiment is asked and made of: the rows of the papers, read from ``papers/*.yaml``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from cxrtext.errors import ConfigError
from cxrtext.files.yaml_text import read_own

EXPERIMENTS: Mapping[str, str] = {
    "when-it-helps": "when a correction for false negatives helps, on simulated pairs",
    "table1": "every correction for false negatives, trained with an equal budget",
    "cifar10-r": "class probabilities of each image's own, CIFAR-10 with unequally common classes",
    "positive-debiased": "a loss corrected for false positives, CIFAR-10",
    "conditional-uniformity": "losses that know of metadata, CIFAR-10",
    "fair-cclk": "features that leave out a color, ColorMNIST",
    "hardneg-cclk": "hard negatives by kernels, CIFAR-10",
}
"""Name, and what it shows; all but the first have their rows in ``papers/NAME.yaml``."""
Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExperimentOptions:
    """What is asked of an experiment.

    ``scale`` says how much data and how long: "smoke", "cpu", "gpu" or "paper", of table 1 also
    "films".  ``out`` is by default ``experiments/<name>-<scale>``.  ``data`` is for table 1 a data
    folder, by default phantoms drawn into ``out``; for small images an ``.npz`` of CIFAR-10 or
    MNIST.  ``features`` are of a backbone (``cxrtext encode``), in place of an image encoder that
    is pre-trained here.  ``seeds`` is the number of trainings a row, by default the scale's.
    """

    scale: str = "cpu"
    out: Path | None = None
    data: Path | None = None
    features: Path | None = None
    seeds: int | None = None
    rows: tuple[str, ...] | None = None


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
    failed: tuple[str, ...] = ()


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measure(Part):
    """A column of a table; ``smaller`` is whether a smaller figure is better.

    Two of the paper's figures must differ by more than ``apart``, about its own deviation over
    trainings, to be an order; where not ``ordered`` they are none.  ``table`` is the title of a
    further table that it stands in; one that is not ``compared`` is shown and not subtracted from
    the baseline's.  It lies between 0 and ``most``, None where it has no largest value.
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
    """One way to train, in what it differs from the other rows of its group.

    ``paper`` has the paper's figures by measure, ``scales`` those at which it is trained unless
    ``--rows`` names it (None: all).  ``needs`` is a file of the data folder without which it cannot
    be trained.
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
    """Rows that stand in one table: the same data, the same budget, the same probes.

    ``data`` is the set that is trained on, ``probe`` how features are measured; both "" of table 1.
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

    ``settings`` are of every training, ``groups`` those of a group, by its name; a group that is
    not named where others are is not trained.  Of small images ``train`` are trained on and
    ``test`` measured on (None: all); probes have ``probe_epochs`` with Adam and ``probe_steps``
    with L-BFGS.  Of table 1 ``studies`` phantoms of ``size`` pixels are drawn (0: data must be
    given); ``language_model`` is what ``pretrain_text`` is given, or a hub id; where there is a
    ``start``, rows go on from that training on an image encoder of the words of findings
    (``image``); of several ``starts`` seed s has the (s modulo ``starts``)-th.
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
    """An experiment, its tables being the groups.

    ``given`` is what ``--data`` names; ``settings`` the paper's recipe, which every scale starts
    from; ``claims`` those of the paper beside what follows from its figures; ``different`` lines on
    what is not as in the paper; ``prompts``: of table 1, several phrasings of each finding.
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
        """The rows of some names, by default the scale's, in the order of the tables."""
        groups = self.scale(scale).groups
        known = {
            row.name: (group, row)
            for group in self.groups
            for row in group.rows
            if not groups or self.given != "pairs" or group.name in groups
        }
        if names is None:
            return tuple(
                (group, row)
                for group, row in known.values()
                if row.scales is None or scale in row.scales
            )
        for name in names or ("",):
            if name not in known:
                raise ConfigError(f"--rows: no row '{name}'; there are {', '.join(known)}")
        return tuple(found for name, found in known.items() if name in names)

    def all_claims(self) -> tuple[Claim, ...]:
        """What the paper orders: within each table by its figures, then as it says."""
        ordered = [one for group in self.groups for one in claims_of(group.rows, group.measures)]
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
    """Settings over settings, also inside sections; an objective is taken whole."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            inside = isinstance(value, Mapping) and key != "objective"
            result[key] = merged(result.get(key, {}), value) if inside else value
        # The later of the two says how long.
        for key, other in (("steps", "epochs"), ("epochs", "steps")):
            if key in layer:
                result.pop(other, None)
    return result
