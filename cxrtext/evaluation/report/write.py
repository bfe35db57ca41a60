"""Write an evaluation: the report, documents, results and predictions."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from cxrtext.evaluation.documents.documents import Material, write_documents
from cxrtext.evaluation.documents.images import TABLE_NOTE, table_one
from cxrtext.evaluation.how_good import how_good_of
from cxrtext.evaluation.predictions.file import NAME, write_predictions
from cxrtext.evaluation.report.sections import definitions, headline, primary_line, sections_of
from cxrtext.evaluation.result import ABOUT, RESULTS, Evaluation
from cxrtext.files import write_json, write_text
from cxrtext.page import EMPTY, RESEARCH, Block, Bullets, Section, Table, Text, Tile, html_page


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """How a report is written.

    ``sentences``: whether predictions hold the sentences of reports rather than numbers.
    ``command`` is the command line that asked for the report.  ``data`` is the data folder for the
    documents to describe if figures come from predictions.
    """

    sentences: bool = True
    command: tuple[str, ...] = ()
    data: Path | None = None


def summary_line(result: Evaluation) -> str:
    fingerprint = f", fingerprint `{result.fingerprint[:16]}`" if result.fingerprint else ""
    return (
        f"{result.images} images of {result.patients} patients, split '{result.split}' of "
        f"`{result.data}`; model `{result.checkpoint}`{fingerprint}. Brackets: 95 % intervals."
    )


def _sections(result: Evaluation, material: Material) -> list[Section]:
    sections = sections_of(result)
    if material.population is not None and material.flow is not None:
        table = Table(table_one(material.population), "By split")
        sections.append(Section("The images", [Text(TABLE_NOTE), table, *material.flow.blocks()]))
    rows = [["measure", "definition"], *([name, text] for name, text in definitions().items())]
    sections.append(Section("Definitions", [Table(rows, words=True)]))
    if result.left_out:
        sections.append(Section("Left out", [Bullets(result.left_out)]))
    return sections


def write_report(
    folder: Path, result: Evaluation, options: ReportOptions | None = None
) -> list[Path]:
    """Write results, predictions, the page and documents; returns the files written."""
    options = options or ReportOptions()
    material = Material(result, options.command, options.data)
    files = [folder / name for name in ("report.html", RESULTS, ABOUT)]
    result.rows.write(files[1])
    write_json(files[2], result.about())
    if result.details is not None:
        files.append(folder / NAME)
        result.predictions.about.update(material.kept())
        write_predictions(files[-1], result.predictions, sentences=options.sentences)
    sections = _sections(result, material)
    primary = [Text(primary_line(result), "lead")] if result.primary else []
    good = how_good_of(result)
    warning = [Text(good.warning, "warn")] if good.at_chance else []
    head: list[Block] = [*warning, Bullets(good.lines), Text(summary_line(result)), *primary]
    head += [Text(line, "warn") for line in result.warnings]
    tiles = [
        Tile(name, *text.split(" ", 1))
        for name, text in headline(result.rows).items()
        if text != EMPTY
    ]
    page = html_page(
        "Evaluation", sections, title=f"Evaluation: {result.data}", head=head, tiles=tiles,
        footer=f"{RESEARCH} cxrtext {version('cxrtext')}.",
    )  # fmt: skip
    write_text(files[0], page)
    return [*files, write_documents(folder, material, sections)]
