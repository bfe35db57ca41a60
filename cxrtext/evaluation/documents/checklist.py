"""Checklists of reporting guidelines: where an item stands, or what the author must write.

Item numbers are those of the guidelines, the wording is ours.  No item is a claim of conformity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from cxrtext.evaluation.documents.cards import environment, split_counts
from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.population import UNCERTAIN_NAMES
from cxrtext.evaluation.documents.questions import TEXTS, Questions, all_questions
from cxrtext.evaluation.grounding.phrases import CNR
from cxrtext.evaluation.rows import GROUNDING, GROUPS, MEAN, MEAN_OF_SENTENCES, OPERATING, ZERO_SHOT
from cxrtext.page import with_interval

FILLED, PART, OPEN = "filled", "in part", "author"
STATES = {FILLED: "filled", PART: "in part", OPEN: "the author must write"}
ACQUIRED = ("manufacturer", "model", "modality", "spacing")
"""Columns of a manifest that say how an image was taken."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown and where, or "" and what the run would need to show it."""

    text: str
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a guideline: its number, topic and state, where it stands, and what is open.

    ``asked`` are names of questions to the author, ``needs`` what a run needs to show more.
    """

    number: str
    topic: str
    state: str
    found: Sequence[str]
    asked: Sequence[str]
    needs: Sequence[str]

    def lines(self) -> list[str]:
        """Where it stands, what the run lacks, and what is to be written."""
        return [
            *self.found,
            *(f"not in this run, which would need {what}" for what in self.needs),
            *(f"**to write** ({name}): {all_questions()[name]}" for name in self.asked),
        ]


@dataclass(frozen=True, slots=True)
class Checklist:
    """A guideline with its items; ``checked`` says how its numbers were compared."""

    title: str
    source: str
    checked: str
    items: Sequence[Item]

    def counts(self) -> dict[str, int]:
        return {state: sum(one.state == state for one in self.items) for state in STATES}


@cache
def _texts(name: str) -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load((TEXTS / name).read_text(encoding="utf-8"))
    return found


def evidence_of(material: Material) -> dict[str, Shown]:
    """What a run shows of what guidelines ask for, by name: the texts of ``evidence.yaml``."""
    known, found = _known(material), {}
    for name, one in _texts("evidence.yaml").items():
        text = f"{{% if {one.get('if', 'true')} %}}{one['text']}{{% endif %}}"
        found[name] = Shown(environment().from_string(text).render(known), one.get("needs", ""))
    return found


def _known(material: Material) -> dict[str, Any]:
    """What the texts of ``evidence.yaml`` read beside the material."""
    result, population = material.result, material.population
    columns = population.images.metadata if population else {}
    model = material.training.get("model", {})
    starts = {"init": "whole model", "image_weights": "image encoder", "text": "text encoder"}
    rows = result.rows
    return {
        "material": material,
        "result": result,
        "population": population,
        "labels": material.flow.labels if material.flow else {},
        "acquired": [name for name in ACQUIRED if any(columns.get(name, ()))],
        "told": [name for name in ("age", "sex", "view", "site") if name in columns],
        "starts": [f"{what} from {model[key]}" for key, what in starts.items() if model.get(key)],
        "best": material.training.get("training", {}).get("best"),
        "splits": split_counts(population) if population else "",
        "preparation": material.preparation,
        "intervals": any(row.ends for row in rows if row.part in (ZERO_SHOT, GROUNDING)),
        "groups": rows.below(GROUPS),
        "grounding": GROUNDING in rows,
        "operating": rows.below(OPERATING),
        "few": [line for line in result.warnings if "detect" in line],
        "notes": len(result.warnings) + len(result.left_out),
        "uncertain": UNCERTAIN_NAMES[str(result.settings["uncertain"])],
        "headline": _headline(material),
    }


def _headline(material: Material) -> list[str]:
    result, found = material.result, []
    if result.primary.get("value") is not None:
        found.append(f"declared primary measure: {result.primary['measure']}")
    for name, part, group, digits in (
        ("AUC", ZERO_SHOT, MEAN, 3),
        (CNR, GROUNDING, MEAN_OF_SENTENCES, 2),
    ):
        row = result.rows.find(part, group, name)
        if row is not None and row.value is not None:
            found.append(f"mean {name} {with_interval(row.value, row.ends, digits)}")
    return found


def checklists(material: Material, questions: Questions) -> list[Checklist]:
    evidence = evidence_of(material)
    return [
        Checklist(
            guideline["title"],
            guideline["source"],
            guideline["checked"],
            [_item(entry, evidence, questions) for entry in guideline["items"]],
        )
        for guideline in _texts("checklists.yaml").values()
    ]


def _item(entry: Sequence[Any], evidence: Mapping[str, Shown], questions: Questions) -> Item:
    number, topic, names, asks = entry
    shown = [evidence[name] for name in names]
    found = [one.text for one in shown if one.text]
    found += [f"author: {questions.answer(name)}" for name in asks if questions.answer(name)]
    asked = [name for name in asks if not questions.answer(name)]
    needs = [one.needs for one in shown if not one.text and one.needs]
    state = OPEN if not found else PART if asked or needs else FILLED
    return Item(str(number), topic, state, found, asked, needs)


def checklist_markdown(lists: Sequence[Checklist]) -> str:
    return environment().get_template("checklist.md.j2").render(lists=lists, states=STATES)
