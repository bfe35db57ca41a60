"""The trainings of an experiment on small images: a folder each, and what is in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError, CxrTextError
from cxrtext.experiments.runs import FORMAT, JOB, METRICS, RESAMPLED
from cxrtext.experiments.small.definition import (
    Experiment,
    Group,
    Scale,
    Settings,
    Trial,
    merged,
)
from cxrtext.experiments.small.small_set import read_set
from cxrtext.experiments.stages import first_difference, read_json
from cxrtext.files import write_sealed

DEFAULTS: Settings = {"log_every": 10, "save_every": 100}
FREE = ("log_every", "save_every")
"""Settings that say nothing of what is trained."""


@dataclass(frozen=True, slots=True)
class SmallRun:
    """One training of one row.

    Args:
        group: The row's table.
        trial: The row.
        seed: Of the training.
        folder: Holds ``job.json``, ``train/``, ``metrics.json``, ``resampled.npz``, ``log.txt``.
        steps: How many there are to be.
        settings: All of ``ViewSettings``, as plain values.
    """

    group: Group
    trial: Trial
    seed: int
    folder: Path
    steps: int
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The run as a person is told of it."""
        return f"{self.trial.name}, seed {self.seed}"

    @property
    def key(self) -> tuple[str, int]:
        """Its row and seed."""
        return self.trial.name, self.seed

    @property
    def module(self) -> str:
        """What trains and measures it."""
        return "cxrtext.experiments.small.run_process"

    def is_done(self) -> bool:
        """Whether it is trained, and measured by this version."""
        metrics = read_json(self.folder / METRICS)
        known = metrics is not None and metrics.get("format") == FORMAT
        return known and (self.folder / RESAMPLED).is_file()


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
) -> list[SmallRun]:
    """Lay out a folder for each row and seed, seeds in turn so that every row has one early.

    Args:
        experiment: Whose.
        scale: How much.
        trials: The rows.
        seeds: Trainings a row.
        sets: The file of each set, by its name.
        out: The experiment's folder.

    Raises:
        DataError: A set's file is damaged.
    """
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
            runs.append(SmallRun(group, trial, seed, folder, int(settings["steps"]), settings))
    return runs


def check(run: SmallRun) -> str | None:
    """A line that says why a run cannot be gone on with, or None."""
    from cxrtext.experiments.small.view_run import view_settings

    try:
        wanted = view_settings(run.settings).deciding()
        metrics = read_json(run.folder / METRICS)
    except (CxrTextError, ValueError, TypeError) as error:
        return str(error).splitlines()[0]
    if metrics is None:
        return None
    found = first_difference(metrics["settings"], wanted, shared=True)
    if found is None:
        return None
    key, before, now = found
    return (
        f"{run.folder}: was trained with {key} {before!r}, not {now!r}; remove the folder to "
        "train it again"
    )
