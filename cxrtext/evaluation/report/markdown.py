"""An evaluation as Markdown."""

from cxrtext.evaluation.blocks import Section, Table, Text
from cxrtext.evaluation.report.sections import sections
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.tables import markdown_table

RESEARCH = "Research use only; not a medical device."


def summary_line(result: Evaluation) -> str:
    """What was measured on what."""
    resamples = result.settings.get("resamples")
    brackets = f" Brackets: 95 % intervals over {resamples} resamples." if resamples else ""
    return (
        f"{result.images} images of {result.patients} patients, split '{result.split}' of "
        f"`{result.data}`; model `{result.checkpoint}`, fingerprint "
        f"`{result.fingerprint[:16]}`.{brackets}"
    )


def _section(section: Section) -> list[str]:
    parts = [f"## {section.title}"]
    if section.title == "Left out":
        lines = [block.text for block in section.blocks if isinstance(block, Text)]
        return [*parts, "\n".join(f"- {line}" for line in lines)]
    for block in section.blocks:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Table):
            parts += [f"### {block.caption}"] if block.caption else []
            parts.append(markdown_table(block.rows))
    return parts


def markdown_report(result: Evaluation) -> str:
    """The whole evaluation as ``report.md``: its texts and tables, without drawings."""
    parts = ["# Evaluation", summary_line(result)]
    for section in sections(result, {}):
        parts += _section(section)
    parts.append(RESEARCH)
    return "\n\n".join(parts) + "\n"
