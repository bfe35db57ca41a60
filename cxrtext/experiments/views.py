"""The experiments on small images: encoders trained on views, and what probes find in them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ConfigError
from cxrtext.evaluation.bootstrap import Resampled, difference_of, estimate_of
from cxrtext.experiments.comparison import order_of
from cxrtext.experiments.data.images import read_set
from cxrtext.experiments.data.sets import fingerprint, prepare_sets, require_data
from cxrtext.experiments.experiment import (
    Claim,
    Experiment,
    ExperimentListener,
    ExperimentOptions,
    Group,
    Measure,
    Scale,
    Settings,
    Trial,
    merged,
)
from cxrtext.experiments.figures import draw_figures
from cxrtext.experiments.measures import JOB, mean_of_seeds
from cxrtext.experiments.page import views_head, views_sections
from cxrtext.experiments.processes import Failures, Finished, Plan, Run
from cxrtext.files import write_sealed
from cxrtext.page import Block, Section

DEFAULTS: Settings = {"log_every": 10, "save_every": 100}
DRAWN = "drawn radiographs"
BUDGET = ("steps", "batch", "lr", "optimizer", "encoder", "width", "gamma_sq", "precision")


class Views:
    """An experiment on small images as the runner wants it."""

    def __init__(self, experiment: Experiment, options: ExperimentOptions) -> None:
        self.experiment, self.options = experiment, options
        if options.scale not in experiment.scales:
            known = ", ".join(experiment.scales)
            raise ConfigError(f"--scale {options.scale}: is not one of {known}")
        self.scale = experiment.scales[options.scale]
        self.trials = choose_trials(experiment, options.scale, options.rows)

    @property
    def name(self) -> str:
        """As the command takes it."""
        return self.experiment.name

    @property
    def _sets(self) -> list[str]:
        return [group.data for group, _ in self.trials]

    def check(self) -> None:
        """Refuse sets that want ``--data`` where it is not given."""
        require_data(self.experiment, self._sets, self.options.data)

    def identity(self) -> dict[str, Any]:
        """How much of which data; steps and recipes are compared run by run."""
        scale = asdict(self.scale)
        kept = {key: scale[key] for key in ("train", "test", "studies", "side", "resamples")}
        data = fingerprint(self.options.data) if self.experiment.given else None
        return {"experiment": self.name, "scale": kept, "data": data}

    def plan(self, out: Path, listener: ExperimentListener) -> Plan:
        """Make the sets, and write what each run is to do."""
        sets, notes = prepare_sets(
            self.experiment, self._sets, self.options.data, self.scale, out, listener
        )
        runs = plan(self.experiment, self.scale, self.trials, self.options.seeds, sets, out)
        return Plan(runs, {}, notes)

    def recipes(self, run: Run, metrics: Mapping[str, Any] | None) -> tuple[Any, Any]:
        """Settings that decide what is trained."""
        from cxrtext.experiments.child import view_settings

        return metrics and metrics["settings"], view_settings(run.settings).deciding()

    def source(self) -> dict[str, Any]:
        """The paper's question, the scale, and which data."""
        experiment, data = self.experiment, self.options.data
        return {
            "experiment": experiment.name,
            "title": experiment.title,
            "source": experiment.source,
            "question": experiment.question,
            "scale": self.options.scale,
            "given": DRAWN if data is None else f"'{data.resolve().name}'",
        }

    def table(self, finished: Sequence[Finished], failed: Failures) -> dict[str, Any]:
        """See :func:`build_table`."""
        found = build_table(self.experiment, self.trials, finished, failed)
        return {**found, "different": list(self.experiment.different)}

    def finish(self, table: dict[str, Any], out: Path) -> list[Path]:
        """Draw the figures, as PNG files."""
        figures, left_out = draw_figures(table, out)
        table |= {"figures": [path.name for path in figures], "left_out": left_out}
        return figures

    def page(self, table: Mapping[str, Any], out: Path) -> tuple[str, list[Block], list[Section]]:
        """Headline, head and sections."""
        return self.experiment.title, views_head(table), views_sections(table, out)


def choose_trials(
    experiment: Experiment, scale: str, names: Sequence[str] | None
) -> tuple[tuple[Group, Trial], ...]:
    """The rows of some names, or those of a scale, in the order of the tables.

    Raises:
        ConfigError: A name is not one of the experiment's.
    """
    every = tuple(experiment.trials())
    if names is None:
        return tuple(pair for pair in every if scale in pair[1].scales)
    known = [trial.name for _, trial in every]
    for name in names:
        if name not in known:
            raise ConfigError(f"--rows: there is no row '{name}'; there are {', '.join(known)}")
    if not names:
        raise ConfigError(f"--rows: names no row; there are {', '.join(known)}")
    return tuple(pair for pair in every if pair[1].name in names)


def settings_of(
    experiment: Experiment, scale: Scale, group: Group, trial: Trial, seed: int
) -> dict[str, Any]:
    """What a training is given, later layers over earlier ones: paper, group, scale, row."""
    return merged(
        DEFAULTS,
        experiment.settings,
        group.settings,
        scale.settings,
        scale.groups.get(group.name, {}),
        trial.settings,
        {"seed": seed},
    )


def plan(
    experiment: Experiment,
    scale: Scale,
    trials: Sequence[tuple[Group, Trial]],
    seeds: int,
    sets: Mapping[str, Path],
    out: Path,
) -> list[Run]:
    """Lay out a folder for each row and seed; ``sets`` has the file of each set, by its name."""
    held = {name: read_set(path) for name, path in sets.items()}
    runs = []
    for seed in range(seeds):
        for group, trial in trials:
            settings = settings_of(experiment, scale, group, trial, seed)
            own = held[group.data]
            images = len(own.train.images)
            settings["batch"] = min(settings["batch"], images)
            if "epochs" in settings:
                settings["steps"] = settings.pop("epochs") * max(1, images // settings["batch"])
            objective = dict(settings["objective"])
            if tuple(objective.get("condition", ())) == ("attributes",):
                objective["condition"] = own.columns
            settings["objective"] = objective
            folder = out / "runs" / trial.name / f"seed-{seed}"
            job = {
                "data": str(sets[group.data].resolve()),
                "probe": group.probe,
                "settings": settings,
                "epochs": scale.epochs,
                "probe_steps": scale.steps,
                "resamples": scale.resamples,
                "device": scale.device,
            }
            write_sealed(folder / JOB, job)
            steps = int(settings["steps"])
            runs.append(Run(trial.name, seed, folder, steps, group.name, settings))
    return runs


def paired(one: Resampled, other: Resampled) -> bool:
    """Whether two measures are of the same images, with the same resamples."""
    return one.rows == other.rows and len(one.values) == len(other.values)


def _difference(measure: Measure, one: Resampled, other: Resampled) -> dict[str, Any]:
    """The first less the second, with its interval and what it means for the first."""
    found: dict[str, Any] = {"value": one.estimate - other.estimate, "low": None, "high": None}
    told, verdict = difference_of(one, other, smaller=measure.smaller)
    if told is not None:
        found |= {"low": told.low, "high": told.high, "p": told.p_value}
    return found | {"verdict": verdict}


def _cells(group: Group, own: Sequence[Finished]) -> dict[str, dict[str, Any]]:
    if not own:
        return {}
    mean = mean_of_seeds([one.measures for one in own])
    cells: dict[str, dict[str, Any]] = {}
    for measure in group.measures:
        if measure.name in mean:
            cells[measure.name] = dict(estimate_of(mean[measure.name]))
            several = [one.measures[measure.name].estimate for one in own]
            deviation = float(np.std(several, ddof=1)) if len(several) > 1 else None
            cells[measure.name]["deviation"] = deviation
    return cells


def _run(group: Group, one: Finished) -> dict[str, Any]:
    budget = one.metrics["budget"]
    return {
        "seed": one.run.seed,
        "steps": budget["steps"],
        "seconds": budget["seconds"],
        "images_seen": budget["images"],
        "measures": {
            measure.name: one.measures[measure.name].estimate
            for measure in group.measures
            if measure.name in one.measures
        },
        "machine": one.metrics["machine"],
        "threads": one.metrics["threads"],
        "versions": one.metrics["versions"],
        "settings": one.metrics["settings"],
    }


def _row(
    group: Group,
    trial: Trial,
    by_row: Mapping[str, Sequence[Finished]],
    failed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    own, base = by_row.get(trial.name, ()), by_row.get(group.baseline, ())
    cells = _cells(group, own)
    difference = {}
    common = {one.run.seed for one in own} & {one.run.seed for one in base}
    if common and trial.name != group.baseline:
        one, other = (
            mean_of_seeds([run.measures for run in several if run.run.seed in common])
            for several in (own, base)
        )
        difference = {
            measure.name: _difference(measure, one[measure.name], other[measure.name])
            for measure in group.measures
            if measure.name in one and measure.name in other
        }
    return {
        "name": trial.name,
        "title": trial.title,
        "measures": cells,
        "paper": dict(trial.paper),
        "beside_paper": {
            name: cells[name]["value"] - value
            for name, value in trial.paper.items()
            if name in cells
        },
        "difference": difference,
        "runs": [_run(group, one) for one in own],
        "failed": list(failed),
    }


def _group(
    group: Group,
    trials: Sequence[Trial],
    by_row: Mapping[str, Sequence[Finished]],
    failures: Failures,
) -> dict[str, Any]:
    some = [one for trial in trials for one in by_row.get(trial.name, ())]
    first = some[0].metrics if some else None
    return {
        "name": group.name,
        "title": group.title,
        "data": group.data,
        "images": first["images"] if first else None,
        "measured": first["measured"] if first else None,
        "budget": {key: first["settings"][key] for key in BUDGET} if first else {},
        "baseline": group.baseline,
        "measures": [
            {"name": one.name, "digits": one.digits, "smaller": one.smaller}
            for one in group.measures
        ],
        "rows": [_row(group, trial, by_row, failures.get(trial.name, ())) for trial in trials],
    }


def _order(
    experiment: Experiment, by_row: Mapping[str, Sequence[Finished]], claims: Sequence[Claim]
) -> dict[str, Any] | None:
    """Which of the paper's orderings appear; None where no such pair was measured."""
    known = {measure.name: measure for group in experiment.groups for measure in group.measures}
    pairs, smaller, told = [], [], []
    means = {
        name: mean_of_seeds([one.measures for one in own]) for name, own in by_row.items() if own
    }
    for claim in dict.fromkeys(claims):
        better = means.get(claim.better, {}).get(claim.measure)
        worse = means.get(claim.worse, {}).get(claim.measure)
        if better is None or worse is None or not paired(better, worse):
            continue
        measure = known[claim.measure]
        pairs.append((better, worse))
        smaller.append(measure.smaller)
        told.append(
            {"better": claim.better, "worse": claim.worse, "measure": claim.measure}
            | _difference(measure, better, worse)
        )
    found = order_of(pairs, smaller)
    return None if found is None else found | {"claims": told}


def build_table(
    experiment: Experiment,
    trials: Sequence[tuple[Group, Trial]],
    finished: Sequence[Finished],
    failures: Failures,
) -> dict[str, Any]:
    """Lay the tables of the rows that were asked for out: ``groups`` and ``order``."""
    by_row = {
        trial.name: [one for one in finished if one.run.row == trial.name] for _, trial in trials
    }
    groups = {group.name: group for group, _ in trials}
    return {
        "groups": [
            _group(group, [t for g, t in trials if g.name == group.name], by_row, failures)
            for group in groups.values()
        ],
        "order": _order(experiment, by_row, experiment.all_claims()),
    }
