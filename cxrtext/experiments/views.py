"""The experiments on small images: encoders trained on views, and what probes find in them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError
from cxrtext.experiments.data.images import read_set
from cxrtext.experiments.data.sets import prepare_sets, require_data
from cxrtext.experiments.experiment import (
    Experiment,
    ExperimentListener,
    ExperimentOptions,
    Group,
    Settings,
    Trial,
    choose,
    merged,
)
from cxrtext.experiments.page import intervals_text
from cxrtext.experiments.processes import Failures, Finished, Plan, Run
from cxrtext.experiments.stages import JOB
from cxrtext.experiments.table import group_of, order_of, trainings_of
from cxrtext.files import sha256, write_sealed
from cxrtext.page import Block, Text

DEFAULTS: Settings = {"log_every": 10, "save_every": 100}
DRAWN = "drawn radiographs"


class Views:
    def __init__(self, experiment: Experiment, options: ExperimentOptions) -> None:
        self.experiment, self.options = experiment, options
        if options.scale not in experiment.scales:
            known = ", ".join(experiment.scales)
            raise ConfigError(f"--scale {options.scale}: is not one of {known}")
        self.scale = experiment.scales[options.scale]
        chosen = choose([trial for _, trial in experiment.trials()], options.rows)
        self.trials = [
            (group, trial)
            for group, trial in experiment.trials()
            if trial in chosen and (options.rows or options.scale in trial.scales)
        ]

    @property
    def seeds(self) -> int:
        return self.options.seeds or 1

    @property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(group.data for group, _ in self.trials))

    def identity(self) -> dict[str, Any]:
        given = self.options.data
        require_data(self.experiment, self.sets, given)
        scale = asdict(self.scale)
        kept = {key: scale[key] for key in ("train", "test", "studies", "side")}
        data = sha256(given) if given and self.experiment.given else None
        return {"experiment": self.experiment.name, "scale": kept, "data": data}

    def settings(self, group: Group, trial: Trial, seed: int) -> dict[str, Any]:
        return merged(
            DEFAULTS,
            self.experiment.settings,
            group.settings,
            self.scale.settings,
            self.scale.groups.get(group.name, {}),
            trial.settings,
            {"seed": seed},
        )

    def plan(self, out: Path, listener: ExperimentListener) -> Plan:
        """Make the sets, and lay out a folder for each row and seed."""
        sets, notes = prepare_sets(
            self.experiment, self.sets, self.options.data, self.scale, out, listener
        )
        held = {name: read_set(path) for name, path in sets.items()}
        runs = []
        for seed in range(self.seeds):
            for group, trial in self.trials:
                settings = self.settings(group, trial, seed)
                own = held[group.data]
                images = len(own.train.images)
                settings["batch"] = min(settings["batch"], images)
                if "epochs" in settings:
                    epoch = max(1, images // settings["batch"])
                    settings["steps"] = settings.pop("epochs") * epoch
                objective = dict(settings["objective"])
                if tuple(objective.get("condition", ())) == ("attributes",):
                    objective["condition"] = own.columns
                settings["objective"] = objective
                folder = out / "runs" / trial.name / f"seed-{seed}"
                job = {
                    "data": str(sets[group.data].resolve()),
                    "probe": group.probe,
                    "settings": settings,
                    "epochs": self.scale.epochs,
                    "probe_steps": self.scale.steps,
                    "device": self.scale.device,
                }
                write_sealed(folder / JOB, job)
                runs.append(
                    Run(trial.name, seed, folder, int(settings["steps"]), group.name, settings)
                )
        return Plan(runs, {}, notes)

    def recipes(self, run: Run, metrics: Mapping[str, Any] | None) -> tuple[Any, Any]:
        from cxrtext.experiments.child import view_settings

        return metrics and metrics["settings"], view_settings(run.settings).deciding()

    def source(self) -> dict[str, Any]:
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
        """Lay the tables of the rows that were asked for out: ``groups`` and ``order``."""
        groups = {group.name: group for group, _ in self.trials}
        measures = {one.name: one for group in self.experiment.groups for one in group.measures}
        return {
            "groups": [
                _group(group, [t for g, t in self.trials if g.name == name], finished, failed)
                for name, group in groups.items()
            ],
            "order": order_of(self.experiment.all_claims(), trainings_of(finished), measures),
            "reading": [],
            "different": list(self.experiment.different),
        }

    def page(self, table: Mapping[str, Any]) -> tuple[str, list[Block]]:
        about = Text(
            f"{table['source']}. Scale '{table['scale']}', on {table['given']}, {table['seeds']} "
            f"seed(s). {table['machine']}; {table['versions']}."
        )
        return self.experiment.title, [
            about,
            intervals_text(table, "test image (of drawn radiographs: patient)"),
        ]


def _group(
    group: Group, trials: Sequence[Trial], finished: Sequence[Finished], failures: Failures
) -> dict[str, Any]:
    names = {trial.name for trial in trials}
    some = [one for one in finished if one.run.row in names]
    about = "No row of this table was finished."
    if some:
        first = some[0].metrics
        settings = first["settings"]
        about = (
            f"{first['images']} training images, measured on {first['measured']}. Every row: "
            f"{settings['steps']} steps of {settings['batch']} images unless its title says "
            f"otherwise, {settings['encoder']} of width {settings['width']}, "
            f"{settings['optimizer']}, learning rate {settings['lr']:g}, "
            f"γ² = {settings['gamma_sq']:g}, {settings['precision']}."
        )
    found = group_of(
        group, trials, some, failures, lambda one: {"settings": one.metrics["settings"]}
    )
    return {**found, "data": group.data, "about": about, "beside_paper": True}
