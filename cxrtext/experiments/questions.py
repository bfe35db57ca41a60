"""What the paper claims, asked of our figures and answered by the intervals of differences."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cxrtext.evaluation.intervals.bootstrap import BETTER, TIED, WORSE
from cxrtext.experiments.comparison import UNKNOWN, Trainings, compare_rows, interval_text
from cxrtext.experiments.papers.table1 import BASELINE, MEASURES, PROPOSED, TABLE1

CLASSIFICATION = ("AUC", "ACC")
RETRIEVAL = ("CNR", "Recall", "MedR")
"""What the second question sets against classification."""
ELSEWHERE = ("CNR", "mIoU", "Recall", "MedR")
"""What the third question asks about beside classification."""
CONSTANT = ("dcl-eta-0.05", "dcl-eta-0.1")
EXPLICIT = ("remove-by-labels", "resample-by-text", "remove-by-text", "reweight-by-text")
MIXED = "better in some and worse in others"
_TITLES = {row.name: row.title.removeprefix("DCL-η, ") for row in TABLE1}
Found = Mapping[str, Mapping[str, Any]]
Rows = Mapping[str, Trainings]


def by_verdict(found: Found) -> str:
    """A comparison as "better in AUC, CNR; not distinguishable in ACC"."""
    if not found:
        return UNKNOWN
    parts = []
    for verdict in (BETTER, WORSE, TIED, UNKNOWN):
        names = [m for m in MEASURES if (found[m]["verdict"] if m in found else UNKNOWN) == verdict]
        if names:
            parts.append(f"{verdict} in {', '.join(names)}")
    return "; ".join(parts)


def direction(found: Found, measures: Sequence[str]) -> str:
    """What several measures say together: better where one is and none is worse, and so on."""
    verdicts = {found[name]["verdict"] for name in measures if name in found}
    if not verdicts:
        return UNKNOWN
    if {BETTER, WORSE} <= verdicts:
        return MIXED
    return BETTER if BETTER in verdicts else WORSE if WORSE in verdicts else TIED


def _comparison(rows: Rows, first: str, second: str) -> dict[str, Any]:
    found = compare_rows(rows.get(first), rows.get(second), MEASURES.values())
    return {"first": first, "second": second, "measures": found}


def _title(one: Mapping[str, Any]) -> str:
    return f"{_TITLES[one['first']]} against {_TITLES[one['second']]}"


def _line(one: Mapping[str, Any], kind: Callable[[Found], str] | None = None) -> str:
    found = one["measures"]
    return f"{_title(one)}: {by_verdict(found)}{f' – {kind(found)}' if kind and found else ''}"


def _grouped(
    comparisons: Sequence[Mapping[str, Any]],
    kind: Callable[[Found], str],
    name: Callable[[Mapping[str, Any]], str],
) -> str:
    """Comparisons by kind, as "trades: A; no trade shown: B, C"."""
    groups: dict[str, list[str]] = {}
    for one in comparisons:
        groups.setdefault(kind(one["measures"]), []).append(name(one))
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in groups.items())


def _proposed(rows: Rows) -> dict[str, Any]:
    one = _comparison(rows, PROPOSED, BASELINE)
    lines = []
    for name, found in one["measures"].items():
        chance = "no interval" if found["p"] is None else f"p = {found['p']:.3f}"
        seeds = f"; ahead in {found['ahead']} of {found['seeds']} seeds"
        text = interval_text(found, MEASURES[name].digits, "+")
        seeds = seeds if found["seeds"] > 1 else ""
        lines.append(f"{name}: {text}, {chance}: {found['verdict']}{seeds}")
    return {
        "question": "Does DCL-η_LM beat LSE+NL, which corrects nothing?",
        "answer": by_verdict(one["measures"]),
        "lines": lines,
        "comparisons": [one],
    }


def trade(found: Found) -> str:
    """Whether the better of two rows in classification is the worse one in retrieval."""
    one, other = direction(found, CLASSIFICATION), direction(found, RETRIEVAL)
    if UNKNOWN in (one, other):
        return UNKNOWN
    if {one, other} == {BETTER, WORSE}:
        return "a trade"
    if one == other and one in (BETTER, WORSE):
        return f"no trade, {one} in both"
    return "no trade shown"


def _constant(rows: Rows) -> dict[str, Any]:
    low, high = CONSTANT
    pairs = [(high, low), *((one, two) for two in (BASELINE, PROPOSED) for one in CONSTANT)]
    comparisons = [_comparison(rows, *pair) for pair in pairs]
    return {
        "question": "Does one class probability for all sentences trade classification against "
        "retrieval: is the better of two rows in AUC or ACC the worse one in CNR, Recall or MedR?",
        "answer": _grouped(comparisons, trade, _title),
        "lines": [_line(one, trade) for one in comparisons],
        "comparisons": comparisons,
    }


def helps(found: Found) -> str:
    """Where a correction helps, as far as intervals leave out 0."""
    one, other = direction(found, CLASSIFICATION), direction(found, ELSEWHERE)
    if UNKNOWN in (one, other):
        return UNKNOWN
    if one == BETTER:
        return {
            BETTER: "helps classification and more",
            WORSE: "helps classification only, at the cost of the others",
            TIED: "helps classification, no help shown elsewhere",
        }.get(other, "helps classification, elsewhere in part")
    elsewhere = "helps elsewhere" if other == BETTER else "no help shown"
    return f"{elsewhere}, classification worse" if one == WORSE else elsewhere


def _explicit(rows: Rows) -> dict[str, Any]:
    against = [_comparison(rows, name, BASELINE) for name in EXPLICIT]
    proposed = [_comparison(rows, PROPOSED, name) for name in EXPLICIT]
    return {
        "question": "Do the explicit corrections, by labels or by text similarity, help "
        "classification only: are AUC or ACC better than LSE+NL's, and CNR, mIoU, Recall and MedR "
        "not?",
        "answer": _grouped(against, helps, lambda one: _TITLES[one["first"]]),
        "lines": [
            *(_line(one, helps) for one in against),
            *(_line(one) for one in proposed),
        ],
        "comparisons": [*against, *proposed],
    }


def answer_questions(rows: Rows) -> list[dict[str, Any]]:
    """Answer the three questions: ``question``, ``answer``, ``lines`` and ``comparisons`` of each.

    Of the rows that were measured, by name and seed.
    """
    return [_proposed(rows), _constant(rows), _explicit(rows)]
