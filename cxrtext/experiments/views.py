"""The experiments on small images: encoders trained on views, and what probes find in them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ConfigError
from cxrtext.evaluation.intervals.comparison import estimate_of
from cxrtext.experiments.comparison import compare_rows, order_of
from cxrtext.experiments.data.images import read_set
from cxrtext.experiments.data.sets import fingerprint, prepare_sets, require_data
from cxrtext.experiments.experiment import (
    Experiment,
    ExperimentListener,
    ExperimentOptions,
    Group,
    Scale,
    Settings,
    Trial,
    choose,
    merged,
)
from cxrtext.experiments.figures import draw_figures
from cxrtext.experiments.measures import JOB, mean_of_seeds
from cxrtext.experiments.page import views_head, views_sections
from cxrtext.experiments.processes import Failures, Finished, Page, Plan, Run
from cxrtext.files import write_sealed

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
    def seeds(self) -> int:
        """Trainings a row."""
        return self.options.seeds or 1

    def identity(self) -> dict[str, Any]:
        """How much of which data; steps and recipes are compared run by run."""
        given = self.options.data
        require_data(self.experiment, self._sets(), given)
        scale = asdict(self.scale)
        kept = {key: scale[key] for key in ("train", "test", "studies", "side", "resamples")}
        data = fingerprint(given) if self.experiment.given else None
        return {"experiment": self.name, "scale": kept, "data": data}

    def _sets(self) -> list[str]:
        return [group.data for group, _ in self.trials]

    def plan(self, out: Path, listener: ExperimentListener) -> Plan:
        """Make the sets, and write what each run is to do."""
        sets, notes = prepare_sets(
            self.experiment, self._sets(), self.options.data, self.scale, out, listener
        )
        runs = plan(self.experiment, self.scale, self.trials, self.seeds, sets, out)
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

    def page(self, table: dict[str, Any], out: Path) -> Page:
        """The page with its figures, which are PNG files."""
        figures, left_out = draw_figures(table, out)
        table |= {"figures": [path.name for path in figures], "left_out": left_out}
        title, head = self.experiment.title, views_head(table)
        return Page(title, head, views_sections(table, out), tuple(figures))


def choose_trials(
    experiment: Experiment, scale: str, names: Sequence[str] | None
) -> tuple[tuple[Group, Trial], ...]:
    """The rows of some names, or those of a scale, in the order of the tables."""
    every = tuple(experiment.trials())
    chosen = choose([trial for _, trial in every], names)
    return tuple(pair for pair in every if pair[1] in chosen and (names or scale in pair[1].scales))


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


def _cells(group: Group, own: Sequence[Finished]) -> dict[str, dict[str, Any]]:
    if not own:
        return {}
    mean = mean_of_seeds([one.measures for one in own])
    cells: dict[str, dict[str, Any]] = {}
    for name in (measure.name for measure in group.measures if measure.name in mean):
        several = [one.measures[name].estimate for one in own]
        deviation = float(np.std(several, ddof=1)) if len(several) > 1 else None
        cells[name] = {**estimate_of(mean[name]), "deviation": deviation}
    return cells


def _row(
    group: Group,
    trial: Trial,
    by_row: Mapping[str, Sequence[Finished]],
    failed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    own = by_row.get(trial.name, ())
    cells, base = _cells(group, own), trial.name == group.baseline
    one, other = (
        {run.run.seed: run.measures for run in by_row.get(name, ())}
        for name in (trial.name, group.baseline)
    )
    names = [measure.name for measure in group.measures]
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
        "difference": {} if base else compare_rows(one, other, group.measures),
        "runs": [run.record(names, "images_seen", "settings") for run in own],
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
    measures = {one.name: one for group in experiment.groups for one in group.measures}
    trainings = {name: {one.run.seed: one.measures for one in own} for name, own in by_row.items()}
    return {
        "groups": [
            _group(group, [t for g, t in trials if g.name == group.name], by_row, failures)
            for group in groups.values()
        ],
        "order": order_of(experiment.all_claims(), trainings, measures),
    }
