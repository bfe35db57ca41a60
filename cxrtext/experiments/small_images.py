"""Experiments on small images: train encoders on views, and measure them with probes."""

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from typing import Any

from cxrtext.experiments.definition import (
    Experiment,
    ExperimentListener,
    ExperimentOptions,
    Group,
    Row,
    Scale,
    merged,
)
from cxrtext.experiments.probes import PROBES, Features
from cxrtext.experiments.runs import Measures, Run, stage
from cxrtext.experiments.small_sets import (
    ImageSet,
    first_of_each_class,
    make_set,
    read_small_images,
)
from cxrtext.experiments.view_encoder import encode
from cxrtext.experiments.view_losses import ViewSettings
from cxrtext.experiments.view_training import train_views

DEFAULTS = {"log_every": 10, "save_every": 100}


class SmallImages:
    def __init__(
        self,
        experiment: Experiment,
        scale: Scale,
        options: ExperimentOptions,
        listener: ExperimentListener,
    ) -> None:
        self.experiment, self.scale = experiment, scale
        self.data, self.listener = options.data, listener
        self.sets: dict[str, ImageSet] = {}

    def prepare(self, groups: Iterable[Group]) -> dict[str, Any]:
        assert self.data is not None and self.experiment.given != "pairs"  # noqa: S101, PT018
        self.listener.say(f"reading {self.data}")
        train, test = read_small_images(self.data, self.experiment.given)
        train = first_of_each_class(train, self.scale.train)
        test = first_of_each_class(test, self.scale.test)
        names = {group.data for group in groups}
        self.sets = {name: make_set(name, train, test) for name in names}
        return {}

    def missing(self, needed: str) -> str:
        return f"no set of small images has {needed}"

    def settings(self, group: Group, row: Row, seed: int) -> dict[str, Any]:
        settings = merged(
            DEFAULTS,
            self.experiment.settings,
            group.settings,
            self.scale.settings,
            self.scale.groups.get(group.name, {}),
            row.settings,
            {"objective": row.objective, "seed": seed},
        )
        images = len(self.sets[group.data].train.labels)
        settings["batch"] = min(settings["batch"], images)
        if "epochs" in settings:
            settings["steps"] = settings.pop("epochs") * max(1, images // settings["batch"])
        return settings | {"data": group.data, "probe": group.probe}

    def train(self, run: Run) -> tuple[dict[str, Any], Measures]:
        names = {field.name for field in fields(ViewSettings)}
        settings = ViewSettings(**{k: v for k, v in run.settings.items() if k in names})
        data, folder = self.sets[run.settings["data"]], run.folder / "train"
        heard = self.listener.training(run.name)
        train = partial(train_views, data, settings, folder, self.scale.device, heard)

        def work() -> dict[str, int]:
            train()
            return {"steps": settings.steps, "images": settings.steps * settings.batch}

        noted = stage(run.folder, "training", folder / "state", work)
        encoder = train()  # loads the last state
        features = Features(
            encode(encoder, data.train.pixels),
            encode(encoder, data.test.pixels),
            data,
            settings.seed,
            self.scale.probe_epochs,
            self.scale.probe_steps,
        )
        noted["device"] = str(encoder.mean.device)
        return noted, PROBES[run.settings["probe"]](features)
