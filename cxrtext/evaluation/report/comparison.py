"""A comparison of models as tables and as Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cxrtext.evaluation.blocks import EMPTY, number, with_interval
from cxrtext.evaluation.compare import SMALLER_IS_BETTER, Comparison
from cxrtext.evaluation.report.markdown import RESEARCH
from cxrtext.evaluation.tables import markdown_table


def model_names(checkpoints: Sequence[Path]) -> list[str]:
    """A short name for each: its folder's, that above "checkpoint", or with a number before it."""
    names = [
        path.parent.name if path.name == "checkpoint" and path.parent.name else path.name
        for path in (one.resolve() for one in checkpoints)
    ]
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, 1)]
    return names


def measure_rows(comparison: Comparison) -> list[list[str]]:
    """Header and one row a measure, a column a model."""
    names = list(dict.fromkeys(name for one in comparison.measures.values() for name in one))
    rows = [["measure", *comparison.models]]
    for name in names:
        cells = []
        for model in comparison.models:
            one = comparison.measures[model].get(name)
            cells.append(EMPTY if one is None else _cell(name, one))
        rows.append([name, *cells])
    return rows


def _cell(name: str, one: Mapping[str, float | None]) -> str:
    low, high = one["low"], one["high"]
    ends = None if low is None or high is None else (low, high)
    return with_interval(one["value"], ends, 1 if name.endswith(SMALLER_IS_BETTER) else 3)


def difference_rows(comparison: Comparison) -> list[list[str]]:
    """Header and one row a measure and pair of models."""
    rows = [["measure", "difference of", "and", "second less first", "p", "second is"]]
    for one in comparison.differences:
        digits = 1 if one.measure.endswith(SMALLER_IS_BETTER) else 3
        text = with_interval(one.estimate, (one.low, one.high), digits)
        p = f"{one.p_value:.3f}" if one.p_value >= 0.001 else f"{one.p_value:.1e}"
        rows.append([one.measure, one.first, one.second, text, p, one.verdict])
    return rows


def comparison_report(comparison: Comparison, evaluated: Sequence[str]) -> str:
    """The comparison as ``comparison.md``.

    Args:
        comparison: The comparison.
        evaluated: A line about what each model was evaluated on.
    """
    count = len(comparison.differences)
    parts = [
        "# Comparison",
        "\n".join(f"- {line}" for line in evaluated),
        "## Measures",
        "Brackets: 95 % intervals over resamples of the patients. CNR, mIoU and the pointing game "
        "are means over sentences; Recall and MedR are those of boxes and sentences.",
        markdown_table(measure_rows(comparison)),
        "## Differences",
        "On the same resamples of the same patients. MedR is better when smaller. The p-values "
        f"are two-sided and not corrected: of {count} comparisons, {number(count / 20, 1)} fall "
        "below 0.05 by chance alone.",
        markdown_table(difference_rows(comparison)),
    ]
    if comparison.left_out:
        parts += ["## Left out", "\n".join(f"- {line}" for line in comparison.left_out)]
    parts.append(RESEARCH)
    return "\n\n".join(parts) + "\n"
