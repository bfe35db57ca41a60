"""The model card: a template over what is known of an evaluation."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader

from cxrtext.evaluation.documents import provenance
from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.population import UNCERTAIN_NAMES, counted
from cxrtext.evaluation.documents.questions import TEXTS, Questions
from cxrtext.evaluation.rows import GROUPS
from cxrtext.page import RESEARCH, Section, Table, markdown_block, markdown_cell

IMAGES = "The images"
"""The section of a report that ``table-1.md`` and ``flow.md`` repeat."""


@cache
def environment() -> Environment:
    found = Environment(  # noqa: S701 - Markdown; cells are escaped where they stand
        loader=FileSystemLoader(TEXTS), trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {"cell": markdown_cell, "counted": counted}
    return found


def model_card(material: Material, questions: Questions, sections: Sequence[Section]) -> str:
    """The model card; ``sections`` are those of the report whose tables it shows."""
    population, result = material.population, material.result
    return environment().get_template("model-card.md.j2").render(
        research=RESEARCH,
        ask=questions.ask,
        material=material,
        result=result,
        groups=result.rows.below(GROUPS),
        model=material.model,
        versions=provenance.versions(),
        made=provenance.now(),
        uncertain=UNCERTAIN_NAMES[str(result.settings["uncertain"])],
        measured=population.counts(population.measured).text() if population else None,
        training=_training(material),
        analyses=_analyses(sections),
    )  # fmt: skip


def _training(material: Material) -> list[tuple[str, Any]]:
    """What a reader looks for first of a training's configuration."""
    config, checkpoint = material.training, material.checkpoint.get("training", {})
    if not config:
        return []
    data, model, how = (config.get(name, {}) for name in ("data", "model", "training"))
    rows = [
        ("objective", config.get("objective", {}).get("name")),
        ("images, sentences", f"{data.get('manifest')}, {data.get('sentences')}"),
        ("digest of the training tables", checkpoint.get("data_fingerprint")),
        ("reports", checkpoint.get("reports") or None),
        ("image encoder begins as", model.get("image_weights") or model.get("init") or "random"),
        ("text encoder begins as", model.get("text") or model.get("init")),
        ("steps", checkpoint.get("step")),
        ("batch", how.get("batch")),
        ("learning rate", how.get("lr")),
        ("locked encoders", ", ".join(how.get("lock") or ()) or "none"),
        ("seed", how.get("seed")),
        ("chosen by", how.get("best")),
    ]
    return [(what, value) for what, value in rows if value is not None]


def _analyses(sections: Sequence[Section]) -> list[tuple[str, str]]:
    """The tables of a report by section."""
    found = []
    for section in sections:
        tables = [
            markdown_block(block)
            for block in section.blocks
            if isinstance(block, Table) and not block.words
        ]
        if tables and section.title != IMAGES:
            found.append((section.title, "\n\n".join(tables).replace("### ", "#### ")))
    return found
