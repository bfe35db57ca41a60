"""Writing the files of a report."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from cxrtext.evaluation.blocks import Figure, Gallery
from cxrtext.evaluation.report.examples import grounding_galleries, retrieval_galleries
from cxrtext.evaluation.report.markdown import markdown_report
from cxrtext.evaluation.report.page import html_page
from cxrtext.evaluation.report.sections import sections
from cxrtext.evaluation.report.sentence_charts import prompt_matrix, sentence_map
from cxrtext.evaluation.result import Evaluation
from cxrtext.files import write_json, write_text

Extra = dict[str, list[Figure | Gallery]]


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a report shows.

    Args:
        examples: Best and worst grounded sentences, and sentences with what they retrieve, of
            each so many.
        pictures: Whether patients' pixels and sentences of reports are shown at all.
    """

    examples: int = 4
    pictures: bool = True


def _extra(result: Evaluation, options: ReportOptions) -> Extra:
    extra: Extra = defaultdict(list)
    details = result.details
    if details is None:
        return extra
    most = options.examples if options.pictures else 0
    if details.grounded is not None and most:
        extra["Grounding"] += grounding_galleries(details, details.grounded, most)
    if details.retrieved is not None:
        if most:
            extra["Retrieval of sentences and images"] += retrieval_galleries(
                details, details.retrieved, most
            )
        drawn = sentence_map(details.model, details.retrieved.wording, details.settings.seed)
        if drawn is not None:
            extra["Sentences and prompts"].append(drawn)
    if details.zero_shot is not None:
        extra["Sentences and prompts"].append(prompt_matrix(details.model, details.prompts))
    return extra


def write_report(
    folder: Path, result: Evaluation, options: ReportOptions | None = None
) -> list[Path]:
    """Write ``metrics.json``, ``report.md`` and ``report.html``.

    Args:
        folder: Where to; made when missing.
        result: What was measured.
        options: What the page shows.

    Returns:
        The files.
    """
    files = [folder / name for name in ("metrics.json", "report.md", "report.html")]
    write_json(files[0], result.to_dict())
    write_text(files[1], markdown_report(result))
    extra = _extra(result, options or ReportOptions())
    write_text(files[2], html_page(result, sections(result, extra)))
    return files
