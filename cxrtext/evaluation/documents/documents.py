"""The documents of an evaluation: what is known about its images, its model and its making."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import ChainableUndefined, Environment, FileSystemLoader

from cxrtext.errors import DataError
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.data import DataFolder, read_data_folder
from cxrtext.evaluation.documents import provenance
from cxrtext.evaluation.documents.images import (
    Counts,
    Flow,
    Population,
    Step,
    counted,
    flow_of,
    population_in,
    population_of,
    read_imported,
    reason_class,
    table_one,
)
from cxrtext.evaluation.predictions.file import NAME as PREDICTIONS
from cxrtext.evaluation.result import ABOUT, RESULTS, Evaluation
from cxrtext.evaluation.rows import GROUPS, ZERO_SHOT
from cxrtext.evaluation.settings import Settings
from cxrtext.files import sha256, write_json, write_sums, write_text
from cxrtext.files.digests import read_sums
from cxrtext.page import RESEARCH, Section, Table, markdown_block, markdown_cell
from cxrtext.records import write_table

FOLDER = "documents"
CARD, FLOW, TABLE_ONE, PROVENANCE = "model-card.md", "flow.json", "table-1.csv", "provenance.json"
TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True)
class Material:
    """An evaluation, and what is known about its images, its model and its making.

    ``command`` is empty if a program asked for it, ``given`` is the data folder if the figures were
    computed from predictions.
    """

    result: Evaluation
    command: Sequence[str] = ()
    given: Path | None = None

    @cached_property
    def folder(self) -> DataFolder | None:
        if self.result.details is not None:
            return self.result.details.folder
        if self.given is None:
            return None
        settings = Settings.from_dict(self.result.settings)
        boxes = settings.boxes if settings.boxes and settings.boxes.is_file() else None
        findings = part.findings if (part := self.result.classified) else tuple(self.prompts)
        return read_data_folder(self.given, allow_outside=True, findings=findings, boxes=boxes)

    @cached_property
    def population(self) -> Population | None:
        if (part := self.result.classified) is None:
            return None
        if self.folder is None:
            return population_in(part, bool(self.result.predictions.about["labeled"]))
        measured = {name for name, own in zip(part.images.names, part.measured, strict=True) if own}
        population = population_of(self.folder, part.findings, measured)
        if missing := len(measured) - int(population.measured.sum()):
            raise DataError(
                f"{self.folder.path}: {missing} of the {len(measured)} images that were measured "
                "are missing; give the data folder of the evaluation"
            )
        if other := _labeled_otherwise(population, part):
            raise DataError(
                f"{self.folder.path}: {other} of the {len(measured)} images have other labels than "
                "those that were measured; evaluate again, or give the data folder as it was"
            )
        return population

    @cached_property
    def flow(self) -> Flow | None:
        if self.population is None:
            return None
        recipe, first = self.result.recipe, None
        if recipe:
            listed, title = recipe["list"], f"Images that recipe {recipe['recipe']} asks for"
            left_out = {why: Counts(images) for why, images in listed["left_out"].items() if images}
            first = Step(title, Counts(listed["needed"]), left_out)
        return flow_of(
            self.population,
            self.result.split,
            imported=read_imported(self.folder.path) if self.folder and not recipe else None,
            rejects=self.unread,
            validation=self.fitted,
            first=first,
        )

    @property
    def fitted(self) -> bool:
        value = self.result.rows.value
        return any(value(ZERO_SHOT, one, "threshold") is not None for one in self.result.findings)

    @cached_property
    def checkpoint(self) -> dict[str, Any]:
        """The model: its name and fingerprint, and more if its folder exists."""
        return provenance.checkpoint_facts(Path(self.result.checkpoint), self.result.fingerprint)

    @property
    def prompts(self) -> Any:
        """By finding and side."""
        return self.result.predictions.about["prompts"]

    @cached_property
    def unread(self) -> Mapping[str, str]:
        if self.result.details is not None:
            return dict(self.result.details.rejects)
        unread: Mapping[str, str] = self.result.predictions.about.get("unread", {})
        return unread

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
        """What a file of predictions keeps about their making, for documents made from it."""
        unread = {name: reason_class(why) for name, why in self.unread.items()}
        return {"making": self.making, "unread": unread}

    def provenance(self, folder: Path) -> dict[str, Any]:
        """The content of ``provenance.json``; ``folder`` is where the evaluation was written.

        If figures were computed from predictions, ``predictions_sha256`` says from which file, and
        ``predictions_making`` when, how and where a model made it.
        """
        result, data = self.result, self.folder.path if self.folder else None
        facts: dict[str, Any] = {
            "about": "research use only; not a medical device; no claim of conformity",
            **self.making,
            "model_applied": result.details is not None,
            "checkpoint": self.checkpoint,
            "data": {"name": Path(result.data).resolve().name, "split": result.split},
            "prompts": provenance.prompt_facts(self.prompts),
            "settings": provenance.without_paths(result.settings),
            "outputs": {
                name: {"sha256": sha256(folder / name)}
                for name in (*([PREDICTIONS] if result.details else ()), RESULTS, ABOUT)
                if (folder / name).is_file()
            },
        }
        if result.details is None:
            facts["predictions_sha256"] = result.predictions.sha256
            facts["predictions_making"] = result.predictions.about.get("making")
        if self.population is not None:
            images, rows = self.population.images, self.population.measured
            facts["data"]["images"] = len(images)
            key = "split_sha256" if self.population.whole else "split_sha256_of_predictions"
            facts["data"][key] = provenance.split_digest(images.names, images.splits)
            own = images.take(rows.nonzero()[0])
            facts["data"]["measured_sha256"] = provenance.split_digest(own.names, own.splits)
        if data is not None:
            boxes = Settings.from_dict(result.settings).boxes
            facts["data"]["tables"] = provenance.table_facts(data, boxes)
        if result.recipe:
            keys = ("recipe", "version", "recipe_sha256", "benchmark", "why_not", "list")
            facts["benchmark"] = {key: result.recipe[key] for key in keys}
        # A value that is not JSON (a path, a numpy number) is our mistake, and raises here.
        return dict(json.loads(json.dumps(facts, allow_nan=False)))

    def card(self, sections: Sequence[Section]) -> str:
        """The model card, with the first table of each section of the report."""
        result = self.result
        environment = Environment(  # noqa: S701 - Markdown; the template escapes cells
            loader=FileSystemLoader(TEXTS),
            undefined=ChainableUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"cell": markdown_cell, "counted": counted}
        population = self.population
        tables = {
            one.title: [block for block in one.blocks if isinstance(block, Table)]
            for one in sections
        }
        return environment.get_template("model-card.md.j2").render(
            research=RESEARCH,
            material=self,
            result=result,
            groups=result.rows.below(GROUPS),
            model=self.checkpoint.get("configuration", {}),
            training=self.checkpoint.get("training", {}),
            data_name=Path(result.data).resolve().name,
            versions=provenance.versions(),
            made=provenance.now(),
            measured=population.counts(population.measured).text() if population else None,
            analyses=[
                (title, markdown_block(some[0]).replace("### ", "#### "))
                for title, some in tables.items()
                if some and not some[0].words
            ],
        )  # fmt: skip


def write_documents(folder: Path, material: Material, sections: Sequence[Section]) -> Path:
    """Write all documents into ``documents/`` of an evaluation's folder; returns that folder.

    If somebody has changed the model card, according to the folder's list of digests, it stays, and
    the new one is ``model-card.new.md``.
    """
    own = folder / FOLDER
    card = own / CARD
    with suppress(OSError, ValueError):
        noted = (read_sums(own) or {}).get(CARD)
        if card.is_file() and sha256(card) != noted:
            card = card.with_name("model-card.new.md")
    write_text(card, material.card(sections))
    write_json(own / PROVENANCE, material.provenance(folder))
    names = [card.name, PROVENANCE]
    if material.population is not None and material.flow is not None:
        header, *rows = table_one(material.population)
        header = ["characteristic", *header[1:]]
        write_table(own / TABLE_ONE, header, [dict(zip(header, row, strict=True)) for row in rows])
        write_json(own / FLOW, material.flow.to_dict())
        names += [TABLE_ONE, FLOW]
    write_sums(own, names)
    return own


def _labeled_otherwise(population: Population, part: Classified) -> int:
    """How many images measured have a label here and another in the predictions."""
    place = {name: at for at, name in enumerate(population.images.names)}
    own = np.flatnonzero(part.measured)
    there = [place[part.images.names[at]] for at in own.tolist()]
    other = np.zeros(len(own), dtype=np.bool_)
    for finding, labels in zip(part.findings, part.labels, strict=True):
        if finding in population.labels:
            other |= population.labels[finding][there] != labels[own]
    return int(other.sum())
