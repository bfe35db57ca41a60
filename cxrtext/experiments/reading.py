"""Which of the paper's claims hold on the data at hand, and why: read off the table's differences.

A claim holds where the difference is better (:func:`~.table.difference`), is reversed where it is
worse, and else is not shown.  Why is answered by the row that removes the false negatives
themselves, where the data allow it: what even that does not win, no correction can.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cxrtext.evaluation.comparison import BETTER, WORSE
from cxrtext.evaluation.settings import TRUTH, TRUTH_BINS
from cxrtext.experiments.papers.table1 import (
    ALL_MEASURES,
    BASELINE,
    CEILING,
    LIVE,
    OURS,
    PROPOSED,
    TABLE1,
)
from cxrtext.experiments.table import UNKNOWN, Trainings, compare_rows, interval_text

HOLDS, REVERSED, UNSHOWN = "holds", "is reversed", "is not shown"
_TITLES = {row.name: row.title for row in TABLE1}
ByMeasure = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Claimed:
    text: str
    row: str
    other: str
    measures: tuple[str, ...]
    better: bool = True


CLAIMS = (
    Claimed("DCL-η_LM classifies better than LSE+NL", PROPOSED, BASELINE, ("AUC",)),
    Claimed("DCL-η_LM grounds better than LSE+NL", PROPOSED, BASELINE, ("CNR",)),
    Claimed("DCL-η_LM retrieves better than LSE+NL", PROPOSED, BASELINE, ("Recall", "MedR")),
    Claimed(
        "η by sentence classifies better than η = 0.05 for all", PROPOSED, "dcl-eta-0.05", ("AUC",)
    ),
    Claimed("Removal by labels helps classification", "remove-by-labels", BASELINE, ("AUC",)),
    Claimed(
        "Removal by labels helps neither grounding nor retrieval",
        "remove-by-labels",
        BASELINE,
        ("CNR", "Recall", "MedR"),
        better=False,
    ),
)
"""What the paper concludes from its table 1 (SSD section 3.2 and 4)."""


def judge(claimed: Claimed, found: ByMeasure) -> str:
    verdicts = [found[name]["verdict"] for name in claimed.measures if name in found]
    if not verdicts:
        return UNKNOWN
    if not claimed.better:
        return REVERSED if BETTER in verdicts else HOLDS
    if BETTER in verdicts and WORSE not in verdicts:
        return HOLDS
    return REVERSED if WORSE in verdicts and BETTER not in verdicts else UNSHOWN


def _figures(found: ByMeasure, names: tuple[str, ...]) -> str:
    return ", ".join(
        f"{name} {interval_text(found[name], ALL_MEASURES[name].digits, '+')}"
        for name in names
        if name in found
    )


def _why(found: ByMeasure, ceiling: ByMeasure, names: tuple[str, ...]) -> str:
    if not any(name in ceiling for name in names):
        return ""
    won = any(ceiling[name]["verdict"] == BETTER for name in names if name in ceiling)
    first = "there is something to win" if won else "there is nothing to win"
    text = (
        f"By these measures {first}: with every true false negative removed the difference is "
        f"{_figures(ceiling, names)}."
    )
    if TRUTH in ceiling and TRUTH in found:
        share = reached(found, ceiling)
        of = "" if share is None else f", {share:.0%} of what their removal wins"
        text += (
            " What their removal changes is where sentences are found true: "
            f"{_figures(ceiling, (TRUTH, *TRUTH_BINS))}; this row: {_figures(found, (TRUTH,))}{of}."
        )
    return text


def reached(found: ByMeasure, ceiling: ByMeasure, name: str = TRUTH) -> float | None:
    """The share of the ceiling's gain that a row has; None where the ceiling clearly has none."""
    if name not in found or name not in ceiling or ceiling[name]["verdict"] != BETTER:
        return None
    return float(found[name]["value"] / ceiling[name]["value"])


def _ours(found: ByMeasure, ceiling: ByMeasure) -> dict[str, Any]:
    wins, loses = (
        tuple(name for name, one in found.items() if one["verdict"] == verdict)
        for verdict in (BETTER, WORSE)
    )
    parts = [f"wins {_figures(found, wins)}" if wins else "wins nothing clearly"]
    parts.append(f"loses {_figures(found, loses)}" if loses else "loses nothing clearly")
    share = reached(found, ceiling)
    of = f"of the {TRUTH} that the removal of the true false negatives wins."
    return {
        "claim": f"{_TITLES[OURS]} (not in the paper) against LSE+NL",
        "verdict": "; ".join(parts),
        "because": "" if share is None else f"It has {share:.0%} {of}",
    }


def read_claims(
    rows: Mapping[str, Trainings], columns: Iterable[str] = ("",)
) -> list[dict[str, Any]]:
    """Read each column of the table: ``column``, ``claim``, ``verdict`` and ``because``."""
    read = []
    for column in columns:
        prefix = f"{LIVE}-" if column == LIVE else ""

        def compared(row: str, other: str, prefix: str = prefix) -> ByMeasure:
            given = rows.get(prefix + row), rows.get(prefix + other)
            return compare_rows(*given, ALL_MEASURES.values())

        ceiling = compared(CEILING, BASELINE)
        for claimed in CLAIMS:
            found = compared(claimed.row, claimed.other)
            verdict = judge(claimed, found)
            if verdict == UNKNOWN:
                continue
            training = all(found[name]["training"] for name in claimed.measures if name in found)
            over = f"patients {'and training' if training else 'alone'}"
            because = f"Difference, over {over}: {_figures(found, claimed.measures)}."
            if verdict in (UNSHOWN, REVERSED) and claimed.row == PROPOSED:
                because += f" {_why(found, ceiling, claimed.measures)}".rstrip()
            read.append(
                {"column": column, "claim": claimed.text, "verdict": verdict, "because": because}
            )
        if ours := compared(OURS, BASELINE):
            read.append({"column": column, **_ours(ours, ceiling)})
    return read
