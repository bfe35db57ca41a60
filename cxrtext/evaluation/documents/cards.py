"""The model card and the datasheet."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader

from cxrtext.evaluation.documents import provenance
from cxrtext.evaluation.documents.evidence import preprocessing_text
from cxrtext.evaluation.documents.imported import Imported
from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.population import UNCERTAIN_NAMES, Population, counted
from cxrtext.evaluation.documents.questions import TEXTS, Questions
from cxrtext.page import RESEARCH, Section, Table, markdown_block, markdown_cell

METRICS = (
    "AUC (area under the ROC curve) of the difference of two prompts' scores, accuracy, average "
    "precision; grounding by contrast-to-noise ratio, overlap and pointing game; retrieval by "
    "recall among the first K and median rank. Definitions: `../report.html`, Definitions, and "
    "the guide to measures. Intervals are of 95 % and count patients; `../metrics.json` "
    "says the method of each."
)
PAPER = "Table "
"""What captions begin with of tables that set a paper's figures beside ours."""
IMAGES = "The images"
"""The section of a report that ``table-1.md`` and ``flow.md`` repeat."""


@cache
def _environment() -> Environment:
    found = Environment(  # noqa: S701 - Markdown; cells are escaped where they stand
        loader=FileSystemLoader(TEXTS), trim_blocks=True, lstrip_blocks=True
    )
    found.filters["cell"] = markdown_cell
    return found


def model_card(material: Material, questions: Questions, sections: Sequence[Section]) -> str:
    """The model card; ``sections`` are those of the report whose tables it shows."""
    model, result = material.model, material.result
    population = material.population
    measured = f"{counted(result.images, 'image')} of {counted(result.patients, 'patient')}"
    if population is not None:
        measured = population.counts(population.measured).text()
    return _environment().get_template("model-card.md.j2").render(
        research=RESEARCH,
        ask=questions.ask,
        name=material.checkpoint["name"],
        fingerprint=result.fingerprint,
        model=model,
        image_encoder=_image_encoder(model),
        text_encoder=_text_encoder(model),
        preprocessing=preprocessing_text(model["preprocessing"]) if model else "",
        versions=provenance.versions(),
        made=provenance.now(),
        groups=list(result.slices),
        metrics=METRICS,
        thresholds=material.fitted,
        settings=result.settings,
        uncertain=UNCERTAIN_NAMES[str(result.settings["uncertain"])],
        prompts=material.prompts,
        measured=f"{measured}: split '{result.split}' of data set '{material.data_name}'",
        training=_training(material),
        analyses=_analyses(sections),
        warnings=result.warnings,
    )  # fmt: skip


def _image_encoder(model: Mapping[str, Any]) -> str:
    backbone = model.get("backbone")
    if backbone:
        return f"{backbone['name']} ({backbone['model_type']}), frozen, kept elsewhere"
    return str(model.get("image", ""))


def _text_encoder(model: Mapping[str, Any]) -> str:
    text = model.get("text", {})
    return (
        f"{text.get('num_hidden_layers')} layers of width {text.get('hidden_size')}, "
        f"{text.get('vocab_size')} word pieces"
        if text
        else ""
    )


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
    """The tables of a report by section, without those of a paper."""
    found = []
    for section in sections:
        tables = [
            markdown_block(block)
            for block in section.blocks
            if isinstance(block, Table) and not block.words and not block.caption.startswith(PAPER)
        ]
        if tables and section.title != IMAGES:
            found.append((section.title, "\n\n".join(tables).replace("### ", "#### ")))
    return found


def datasheet(material: Material, questions: Questions) -> str:
    """The datasheet of the data folder."""
    population, imported = material.population, material.imported
    facts: dict[str, Any] = {}
    if population is not None:
        facts = {
            "counts": population.counts(population.all_rows).text(),
            "whole": population.whole,
            "holds": _holds(material, population),
            "missing": _missing(population),
            "per_patient": _per_patient(material),
            "splits": _splits(population),
            "groups": _groups(population),
        }
    model = material.model
    return _environment().get_template("datasheet.md.j2").render(
        research=RESEARCH,
        ask=questions.ask,
        data=material.data_name,
        imported=imported,
        options=_options(imported),
        drawn=material.drawn,
        hashed=_hashed(material),
        duplicates=_duplicates(material),
        left_out=", ".join(f"{why} ({n:,})" for why, n in imported.left_out.items())
        if imported
        else "",
        preprocessing=preprocessing_text(model["preprocessing"]) if model else "not known here",
        used=f"This evaluation measured split '{material.result.split}' with model "
        f"`{material.result.fingerprint[:16] or material.checkpoint['name']}`.",
        listed=material.images_listed,
        **facts,
    )  # fmt: skip


def _options(imported: Imported | None) -> dict[str, str]:
    """What decided an import, in words."""
    if imported is None:
        return {}
    found = {}
    for name, value in imported.options.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        found[name.replace("_", " ")] = {"True": "yes", "False": "no", "": "none"}.get(text, text)
    return found


def _holds(material: Material, population: Population) -> str:
    columns = list(population.images.metadata)
    parts = ["The image file", f"columns {', '.join(columns)}" if columns else ""]
    folder = material.folder
    if folder is not None:
        parts += ["a report" if folder.sentences is not None else "no report"]
        parts += ["boxes with sentences" if folder.boxes is not None else "no boxes"]
    if population.labels:
        parts.append(f"labels of {', '.join(population.labels)}")
    return f"{', '.join(filter(None, parts))}."


def _missing(population: Population) -> str:
    blank = {
        name: sum(not value for value in values)
        for name, values in population.images.metadata.items()
    }
    told = [f"{name} of {counted(n, 'image')}" for name, n in blank.items() if n]
    labels = sum(int((codes == -2).sum()) for codes in population.labels.values())
    told += [counted(labels, "label")] if labels else []
    return f"{', '.join(told)}." if told else "No cell of the columns and labels that there are."


def _per_patient(material: Material) -> str:
    if material.table_one is None:
        return ""
    row = next(one for one in material.table_one.rows if one.name == "Images of a patient")
    whole = dict(zip(material.table_one.columns, row.cells, strict=True))
    text = next((whole[name] for name in whole if name.startswith("all")), row.cells[0])
    return f"Images of a patient, median [quartiles]: {text}."


def _splits(population: Population) -> str:
    parts = [f"{name} {population.of_split(name).sum():,}" for name in population.split_names]
    return f"Images: {', '.join(parts)}."


def _groups(population: Population) -> str:
    names = [name for name in ("sex", "age", "view", "site") if name in population.images.metadata]
    return f"By {', '.join(names)}" if names else "No column says sex, age or site"


def _hashed(material: Material) -> str:
    if material.imported is None:
        return ""
    if material.imported.hashed:
        return "Ids and file names are keyed hashes; texts, headers and pixels are as they came."
    return "Ids are those of the source; nothing was de-identified by the import."


def _duplicates(material: Material) -> str:
    found = material.imported
    if found is None:
        return ""
    parts = []
    if found.same_images:
        parts.append(f"{counted(found.same_images, 'image')} with equal pixels")
    if found.unlike_frontal:
        parts.append(f"{counted(found.unlike_frontal, 'image')} that look unlike a frontal chest")
    if found.replaced_reports:
        parts.append(f"{counted(found.replaced_reports, 'report')} replaced by a later version")
    return f"{', '.join(parts)}." if parts else ""
