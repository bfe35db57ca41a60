"""Writing an evaluation: the report, its tables, documents, results and predictions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from cxrtext.evaluation.documents.cards import IMAGES
from cxrtext.evaluation.documents.flow import flow_blocks
from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.table_one import NOTE
from cxrtext.evaluation.documents.write import write_documents
from cxrtext.evaluation.grounding.phrases import PhraseValues
from cxrtext.evaluation.how_good import how_good_of
from cxrtext.evaluation.predictions.file import NAME, write_predictions
from cxrtext.evaluation.report.export import TABLES, export_tables, to_csv, to_latex
from cxrtext.evaluation.report.figures import prompt_matrix
from cxrtext.evaluation.report.pictures import grounding_galleries, retrieval_galleries
from cxrtext.evaluation.report.sections import DEFINITIONS, IN_GROUNDING, IN_RETRIEVAL, sections_of
from cxrtext.evaluation.report.tables import headline, primary_line
from cxrtext.evaluation.result import ABOUT, RESULTS, Details, Evaluation
from cxrtext.evaluation.retrieval.sentences import DIRECTIONS, SentenceRanks
from cxrtext.files import write_json, write_text
from cxrtext.page import (
    EMPTY,
    RESEARCH,
    Block,
    Bullets,
    Gallery,
    Section,
    Table,
    Text,
    Tile,
    html_page,
)

PROTECTED = (
    "This page holds pixels of patients' images and sentences of their reports: keep it where you "
    "keep them. `--no-pictures` leaves both out."
)
TILES = {
    "AUC": "zero-shot AUC",
    "ACC": "zero-shot ACC",
    "CNR": "grounding CNR",
    "mIoU": "grounding mIoU",
    "Recall": "box retrieval Recall",
    "MedR": "box retrieval MedR",
}


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a report shows.

    So many best and worst grounded sentences, and sentences with what they retrieve; or no pixels
    of patients and no sentences of reports at all.  ``command`` is the command line that asked for
    it, and ``answers`` are the author's to the questions of the documents, by name.  ``data`` is
    the data folder that the documents describe, where figures are computed from predictions.
    """

    examples: int = 4
    pictures: bool = True
    command: tuple[str, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None


def summary_line(result: Evaluation) -> str:
    known = f", fingerprint `{result.fingerprint[:16]}`" if result.fingerprint else ""
    return (
        f"{result.images} images of {result.patients} patients, split '{result.split}' of "
        f"`{result.data}`; model `{result.checkpoint}`{known}. Brackets: 95 % intervals."
    )


def _pictures(
    result: Evaluation, details: Details, options: ReportOptions
) -> dict[str, list[Gallery]]:
    """Galleries by the title of their section."""
    most = options.examples if options.pictures else 0
    found: dict[str, list[Gallery]] = {}
    if not most:
        return found
    parts = result.predictions.parts if result.predictions else {}
    grounded, ranked = parts.get("grounding"), parts.get("retrieval")
    if isinstance(grounded, PhraseValues):
        found[IN_GROUNDING] = grounding_galleries(details, grounded, most)
    if isinstance(ranked, SentenceRanks) and details.wording is not None:
        ranks = ranked.queries[DIRECTIONS[0]].ranks
        found[IN_RETRIEVAL] = retrieval_galleries(details, details.wording, ranks, most)
    return found


def _images(material: Material) -> list[Section]:
    """Who was measured, and who was not and why."""
    if material.table_one is None or material.flow is None:
        return []
    note = f"{NOTE} Both for a paper: `documents/`."
    shown = [material.table_one.page_table(), *flow_blocks(material.flow)]
    return [Section(IMAGES, [Text(note), *shown])]


def _sections(result: Evaluation, options: ReportOptions, material: Material) -> list[Section]:
    found = sections_of(result)
    if result.details is not None:
        pictures = _pictures(result, result.details, options)
        for section in found:
            section.blocks += pictures.get(section.title, [])
    found += _images(material)
    if result.details is not None and result.scores:
        matrix = prompt_matrix(result.details.model, result.details.prompts)
        found.append(Section("Prompts", [matrix]))
    rows = [["measure", "definition"], *([name, text] for name, text in DEFINITIONS.items())]
    found.append(Section("Definitions", [Table(rows, words=True)]))
    if result.left_out:
        found.append(Section("Left out", [Bullets(result.left_out)]))
    return found


def write_report(
    folder: Path, result: Evaluation, options: ReportOptions | None = None
) -> list[Path]:
    """Write results, predictions, the page, its tables and documents; returns what was written.

    Without pictures the predictions have numbers in place of sentences.
    """
    options = options or ReportOptions()
    material = Material(result, options.command, options.answers, options.data)
    files = [folder / name for name in ("report.html", RESULTS, ABOUT)]
    result.rows.write(files[1])
    write_json(files[2], result.about())
    if result.predictions is not None and result.details is not None:
        files.append(folder / NAME)
        result.predictions.about.update(material.kept())
        write_predictions(files[-1], result.predictions, sentences=options.pictures)
    sections = _sections(result, options, material)
    warnings = [Text(line, "warn") for line in result.warnings]
    primary = [Text(primary_line(result), "lead")] if result.primary else []
    good = how_good_of(result)
    told = [Text(good.warning, "warn")] if good.at_chance else []
    rest = [Text(summary_line(result)), *primary, *warnings]
    head: list[Block] = [*told, Bullets(good.lines), *rest]
    if any(isinstance(block, Gallery) for one in sections for block in one.blocks):
        head.append(Text(PROTECTED, "warn"))
    tiles = [
        Tile(TILES[name], *text.split(" ", 1))
        for name, text in headline(result.rows).items()
        if text != EMPTY
    ]
    page = html_page(
        "Evaluation", sections, title=f"Evaluation: {result.data}", head=head, tiles=tiles,
        footer=f"{RESEARCH} cxrtext {version('cxrtext')}.",
    )  # fmt: skip
    write_text(files[0], page)
    export_tables(folder / TABLES, sections)
    documents = write_documents(folder, material, sections, _table_one(material))
    return [*files, folder / TABLES, documents]


def _table_one(material: Material) -> dict[str, str]:
    """Table 1 as CSV and LaTeX, by name."""
    if material.table_one is None:
        return {}
    latex = to_latex(material.table_one.page_table(), "table-1")
    return {"table-1.csv": to_csv(material.table_one.data_table()), "table-1.tex": latex}
