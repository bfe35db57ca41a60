"""What the paper claims, asked of our figures and answered by their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cxrtext.experiments.comparison import RowValues, compare_rows
from cxrtext.experiments.rows import BASELINE, PROPOSED, TABLE1

BETTER, WORSE, TIED, UNKNOWN = "better", "worse", "not told apart", "not measured"


@dataclass(frozen=True, slots=True)
class Question:
    """A question: whether the proposed row beats some others.

    Args:
        text: As a person asks it.
        against: Names of the rows.
    """

    text: str
    against: tuple[str, ...]


QUESTIONS = (
    Question("Does DCL-η_LM beat LSE+NL, which corrects nothing?", (BASELINE,)),
    Question(
        "Does a class probability of each sentence's own beat one for all sentences?",
        ("dcl-eta-0.05", "dcl-eta-0.1"),
    ),
    Question(
        "Does DCL-η_LM beat finding the false negatives by labels or by text similarity?",
        ("remove-by-labels", "resample-by-text", "remove-by-text", "reweight-by-text"),
    ),
)
"""The three claims of table 1 (SSD section 3.2)."""

_TITLES = {row.name: row.title for row in TABLE1}


def verdict(difference: Mapping[str, float | None] | None) -> str:
    """What an interval of a difference says: better, worse, not told apart, or not measured.

    Args:
        difference: ``low`` and ``high``; None where a row is missing.
    """
    if difference is None or difference["low"] is None or difference["high"] is None:
        return UNKNOWN
    if difference["low"] > 0:
        return BETTER
    return WORSE if difference["high"] < 0 else TIED


def together(verdicts: list[str]) -> str:
    """One answer of several comparisons."""
    known = [one for one in verdicts if one != UNKNOWN]
    if not known:
        return UNKNOWN
    if set(known) == {BETTER}:
        answer = "yes"
    elif set(known) == {WORSE}:
        answer = "no, it is worse"
    elif set(known) == {TIED}:
        answer = TIED
    else:
        counts = (f"{one} {known.count(one)}" for one in (BETTER, TIED, WORSE) if one in known)
        answer = f"of {len(known)} comparisons: {', '.join(counts)}"
    missing = len(verdicts) - len(known)
    return f"{answer} ({missing} not measured)" if missing else answer


def difference_text(difference: Mapping[str, float | None]) -> str:
    """A difference as "+0.012 [-0.004, 0.027]"."""
    text = f"{difference['value']:+.3f}"
    if difference["low"] is None or difference["high"] is None:
        return text
    return f"{text} [{difference['low']:.3f}, {difference['high']:.3f}]"


def _line(title: str, found: Mapping[str, Any] | None) -> str:
    if found is None:
        return f"against {title}: {UNKNOWN}"
    seeds = f" (above in {found['seeds above']} of {found['seeds']} seeds)"
    return (
        f"against {title}: AUC difference {difference_text(found['AUC'])}: "
        f"{verdict(found['AUC'])}{seeds if found['seeds'] > 1 else ''}"
    )


def answer_questions(rows: Mapping[str, RowValues]) -> list[dict[str, Any]]:
    """Answer the three questions from the rows that were measured.

    Args:
        rows: Measures by the row's name.

    Returns:
        One mapping a question: ``question``, ``answer``, ``lines`` (one a comparison) and
        ``comparisons``.
    """
    answers = []
    for question in QUESTIONS:
        found: dict[str, dict[str, Any] | None] = {
            name: compare_rows(rows[PROPOSED], rows[name])
            if PROPOSED in rows and name in rows
            else None
            for name in question.against
        }
        verdicts = [verdict(one["AUC"] if one else None) for one in found.values()]
        answers.append(
            {
                "question": question.text,
                "answer": together(verdicts),
                "lines": [_line(_TITLES[name], one) for name, one in found.items()],
                "comparisons": found,
            }
        )
    return answers
