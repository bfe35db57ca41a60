"""Checklists of reporting guidelines: where an item stands, or what the author must write.

Item numbers are those of the guidelines, the wording is ours.  No item is a claim of conformity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from cxrtext.evaluation.documents.evidence import Shown, evidence_of
from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.questions import TEXTS, Questions, all_questions
from cxrtext.page import markdown_cell

FILLED, PART, OPEN = "filled", "in part", "author"
STATES = {
    FILLED: "filled: where it stands",
    PART: "in part: where it stands, and what the author must still write",
    OPEN: "the author must write",
}


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


@dataclass(frozen=True, slots=True)
class Checklist:
    """A guideline with its items; ``checked`` says how its numbers were compared."""

    title: str
    source: str
    checked: str
    items: Sequence[Item]

    def counts(self) -> dict[str, int]:
        """Items by state."""
        return {state: sum(one.state == state for one in self.items) for state in STATES}


@cache
def _texts() -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load((TEXTS / "checklists.yaml").read_text(encoding="utf-8"))
    return found


def checklists(material: Material, questions: Questions) -> list[Checklist]:
    """The guidelines, with what this evaluation shows of each item."""
    evidence = evidence_of(material)
    found = []
    for guideline in _texts().values():
        items = [_item(entry, evidence, questions) for entry in guideline["items"]]
        title, source, checked = (guideline[name] for name in ("title", "source", "checked"))
        found.append(Checklist(title, source, checked, items))
    return found


def _item(entry: Sequence[Any], evidence: Mapping[str, Shown], questions: Questions) -> Item:
    number, topic, names, asks = entry
    shown = [evidence[name] for name in names]
    found = [one.text for one in shown if one.text]
    found += [f"author: {questions.answer(name)}" for name in asks if questions.answer(name)]
    asked = [name for name in asks if not questions.answer(name)]
    needs = [one.needs for one in shown if not one.text and one.needs]
    state = OPEN if not found else PART if asked or needs else FILLED
    return Item(str(number), topic, state, found, asked, needs)


def checklist_markdown(found: Sequence[Checklist]) -> str:
    """The lists as a document."""
    lines = [
        "# Checklists",
        "",
        "Where each item of three reporting guidelines stands in the files of this evaluation, and "
        "what the author must write. **This is no claim of conformity** to a guideline, standard "
        "or law: it was filled in by a program that knows the run and not the study.",
        "",
        "The wording of the items is ours and short; read the guidelines themselves, and fill in "
        "their own forms for a journal. Questions that several items share are answered once "
        "(`questions.yaml`). File names without a folder are those of this folder; `../` is the "
        "folder of the evaluation.",
    ]
    lines += ["", "| guideline | items | filled | in part | author |", "|---|---:|---:|---:|---:|"]
    for one in found:
        numbers = " | ".join(str(n) for n in one.counts().values())
        lines.append(f"| {one.title} | {len(one.items)} | {numbers} |")
    for one in found:
        lines += ["", f"## {one.title}", "", f"{one.source}. How the numbers of the items were "]
        lines[-1] += f"checked: {one.checked}; the publication itself was not at hand."
        lines += ["", "| item | topic | state | where it stands, or what is to be written |"]
        lines += ["|---|---|---|---|", *(_line(item) for item in one.items)]
    return "\n".join(lines) + "\n"


def _line(item: Item) -> str:
    parts = [*item.found]
    parts += [f"not in this run, which would need {what}" for what in item.needs]
    parts += [f"**to write** ({name}): {all_questions()[name]}" for name in item.asked]
    cells = (item.number, item.topic, STATES[item.state].partition(":")[0], "<br>".join(parts))
    return "| " + " | ".join(map(markdown_cell, cells)) + " |"
