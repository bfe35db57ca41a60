"""Everything that the documents of an evaluation are made from, gathered once."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import DataError
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.data import DataFolder, read_data_folder
from cxrtext.evaluation.documents import provenance
from cxrtext.evaluation.documents.flow import Flow, Step, Task, flow_of, reason_class
from cxrtext.evaluation.documents.imported import Imported, read_imported
from cxrtext.evaluation.documents.population import Counts, Population, population_in, population_of
from cxrtext.evaluation.documents.table_one import TableOne, table_one
from cxrtext.evaluation.predictions.file import NAME as PREDICTIONS
from cxrtext.evaluation.result import ABOUT, RESULTS, Evaluation
from cxrtext.evaluation.retrieval.sentences import DIRECTIONS
from cxrtext.evaluation.rows import (
    ABSENCE,
    ALL,
    GROUNDING,
    MASKS,
    MEAN_OF_SENTENCES,
    RETRIEVAL,
    SIDES,
    ZERO_SHOT,
)
from cxrtext.evaluation.settings import Settings
from cxrtext.files import sha256
from cxrtext.files.digests import read_sums


@dataclass(frozen=True)
class Material:
    """An evaluation, and what is known of its images, its model and its making.

    ``command`` is empty where a program asked for it, ``answers`` are by the name of the question,
    ``given`` is the data folder where the figures were computed from predictions.
    """

    result: Evaluation
    command: Sequence[str] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    given: Path | None = None

    @cached_property
    def folder(self) -> DataFolder | None:
        if self.result.details is not None:
            return self.result.details.folder
        if self.given is None:
            return None
        settings = Settings.from_dict(self.result.settings)
        boxes = settings.boxes if settings.boxes and settings.boxes.is_file() else None
        return read_data_folder(self.given, allow_outside=True, findings=self.findings, boxes=boxes)

    @cached_property
    def population(self) -> Population | None:
        predictions, part = self.result.predictions, self._classified
        if predictions is None or part is None:
            return None
        if self.folder is None:
            return population_in(part, bool(predictions.about["labeled"]))
        measured = {name for name, own in zip(part.images.names, part.measured, strict=True) if own}
        found = population_of(self.folder, self.findings, measured)
        if lacking := len(measured) - int(found.measured.sum()):
            raise DataError(
                f"{self.folder.path}: lacks {lacking} of the {len(measured)} images that were "
                "measured; give the data folder of the evaluation"
            )
        if other := _labeled_otherwise(found, part):
            raise DataError(
                f"{self.folder.path}: labels {other} of the {len(measured)} images otherwise than "
                "those that were measured; evaluate again, or give the data folder as it was"
            )
        return found

    @cached_property
    def data(self) -> Path | None:
        return self.folder.path if self.folder else None

    @property
    def data_name(self) -> str:
        return Path(self.result.data).resolve().name

    @cached_property
    def imported(self) -> Imported | None:
        return read_imported(self.data) if self.data else None

    @cached_property
    def images_listed(self) -> bool:
        with suppress(OSError, ValueError):
            listed = read_sums(self.data) if self.data else None
            return any(name.startswith("images/") for name in listed or ())
        return False

    @cached_property
    def table_one(self) -> TableOne | None:
        return table_one(self.population) if self.population else None

    @cached_property
    def flow(self) -> Flow | None:
        if self.population is None:
            return None
        return flow_of(
            self.population,
            self.result.split,
            imported=self.imported,
            rejects=self.unread,
            validation=self.fitted,
            tasks=_tasks(self.result),
            first=_listed(self.result.recipe),
        )

    @property
    def fitted(self) -> bool:
        value = self.result.rows.value
        return any(value(ZERO_SHOT, one, "threshold") is not None for one in self.result.findings)

    @cached_property
    def checkpoint(self) -> dict[str, Any]:
        """The model: its name and fingerprint, and the rest where its folder is there."""
        return provenance.checkpoint_facts(Path(self.result.checkpoint), self.result.fingerprint)

    @property
    def model(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.checkpoint.get("configuration", {})
        return found

    @property
    def preparation(self) -> str:
        """How the model prepares an image, in words; "" where its folder is not there."""
        if not self.model:
            return ""
        given = self.model["preprocessing"]
        sides = "both sides" if given.get("fit", "crop") == "stretch" else "shorter side"
        return (
            f"{sides} resized to {given['resize']} pixels, center crop of {given['crop']}, gray "
            f"values of 8 bits brought to mean {given['mean']:g} and scale {given['std']:g}"
        )

    @property
    def training(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.checkpoint.get("training", {}).get("configuration", {})
        return found

    @property
    def prompts(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        predictions = self.result.predictions
        return predictions.about["prompts"] if predictions else {}

    @property
    def _classified(self) -> Classified | None:
        predictions = self.result.predictions
        part = predictions.parts.get("classification") if predictions else None
        return part if isinstance(part, Classified) else None

    @property
    def findings(self) -> tuple[str, ...]:
        return self._classified.findings if self._classified else tuple(self.prompts)

    @cached_property
    def unread(self) -> Mapping[str, str]:
        if self.result.details is not None:
            return dict(self.result.details.rejects)
        predictions = self.result.predictions
        return predictions.about.get("unread", {}) if predictions else {}

    @cached_property
    def making(self) -> dict[str, Any]:
        details = self.result.details
        return {
            "made": provenance.now(),
            "command": provenance.shown_command(self.command),
            "software": provenance.versions(),
            "machine": provenance.machine(str(details.model.device) if details else "cpu"),
        }

    def kept(self) -> dict[str, Any]:
        """What a file of predictions keeps of their making, for documents made from it."""
        unread = {name: reason_class(why) for name, why in self.unread.items()}
        return {"making": self.making, "unread": unread}

    def provenance(self, folder: Path) -> dict[str, Any]:
        """What ``provenance.json`` holds; ``folder`` is where the evaluation was written.

        Where figures were computed from predictions, ``predictions_sha256`` says from which file,
        and ``predictions_making`` when, how and where a model made it.
        """
        result, data = self.result, self.data
        found: dict[str, Any] = {
            "about": "research use only; not a medical device; no claim of conformity",
            **self.making,
            "model_applied": result.details is not None,
            "checkpoint": self.checkpoint,
            "data": {"name": self.data_name, "split": result.split},
            "prompts": provenance.prompt_facts(self.prompts),
            "settings": provenance.without_paths(result.settings),
            "outputs": {
                name: {"sha256": sha256(folder / name)}
                for name in (*([PREDICTIONS] if result.details else ()), RESULTS, ABOUT)
                if (folder / name).is_file()
            },
        }
        if result.details is None and result.predictions is not None:
            found["predictions_sha256"] = result.predictions.sha256
            found["predictions_making"] = result.predictions.about.get("making")
        if self.population is not None:
            images, rows = self.population.images, self.population.measured
            found["data"]["images"] = len(images)
            key = "split_sha256" if self.population.whole else "split_sha256_of_predictions"
            found["data"][key] = provenance.split_digest(images.names, images.splits)
            own = images.take([int(row) for row in rows.nonzero()[0]])
            found["data"]["measured_sha256"] = provenance.split_digest(own.names, own.splits)
        if data is not None:
            boxes = Settings.from_dict(result.settings).boxes
            found["data"]["tables"] = provenance.table_facts(data, boxes)
            found["data"]["images_listed"] = self.images_listed
        if result.recipe:
            told = ("recipe", "version", "recipe_sha256", "benchmark", "why_not", "list")
            found["benchmark"] = {name: result.recipe[name] for name in told}
        # What is not JSON (a path, a numpy number) is a fault of ours, and raises here.
        return dict(json.loads(json.dumps(found, allow_nan=False)))


def _labeled_otherwise(population: Population, part: Classified) -> int:
    """How many images measured have another label than in the predictions, as far as both do."""
    place = {name: at for at, name in enumerate(population.images.names)}
    own = np.flatnonzero(part.measured)
    there = [place[part.images.names[at]] for at in own.tolist()]
    other = np.zeros(len(own), dtype=np.bool_)
    for finding, labels in zip(part.findings, part.labels, strict=True):
        if finding in population.labels:
            other |= population.labels[finding][there] != labels[own]
    return int(other.sum())


def _listed(recipe: Mapping[str, Any]) -> Step | None:
    """The images that the list of a benchmark asks for; None where it was none."""
    if not recipe:
        return None
    listed, title = recipe["list"], f"Images that recipe {recipe['recipe']} asks for"
    left_out = {why: Counts(images) for why, images in listed["left_out"].items() if images}
    return Step(title, Counts(listed["needed"]), left_out)


def _tasks(result: Evaluation) -> list[Task]:
    """What else was measured, on how many images and sentences."""
    tasks = []
    for title, (part, group, names) in COUNTED.items():
        if part in result.rows:
            lines = [(told, result.rows.count(part, group, name)) for name, told in names.items()]
            if part == GROUNDING:
                lines.insert(1, ("images without", result.images - lines[0][1]))
                lines += _left_out(result, "grounding")
            tasks.append(Task(title, lines))
    return tasks


COUNTED: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "Grounding": (
        GROUNDING,
        MEAN_OF_SENTENCES,
        {
            "images": "images with boxes",
            "sentences": "sentences with boxes",
            "boxes": "their boxes",
        },
    ),
    "Masks": (MASKS, ALL, {"images": "images with masks", "sentences": "sentences"}),
    "Phrases without a box": (
        ABSENCE,
        ALL,
        {"with a box": "phrases with a box", "without": "without"},
    ),
    "Sentences of one side": (SIDES, ALL, {name: name for name in ("images", "left", "right")}),
    "Retrieval of sentences and images": (
        RETRIEVAL,
        DIRECTIONS[0],
        {"queries": "distinct sentences", "candidates": "images searched"},
    ),
}
"""By title the part, the group and the counts that a flow of images ends in."""


def _left_out(result: Evaluation, part: str) -> list[tuple[str, int]]:
    """Lines of what a part left out, as (reason, number)."""
    own = [line.removeprefix(f"{part}: ") for line in result.left_out if line.startswith(part)]
    parted = [line.rpartition(": ") for line in own]
    return [(f"left out, {why}", int(n)) for why, _, n in parted if n.isdigit()]
