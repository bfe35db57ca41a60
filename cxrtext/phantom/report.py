"""Whole reports: which statements stand in which section."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cxrtext.phantom.background import COMPLAINTS, INDICATIONS, NO_PRIOR, PRIOR
from cxrtext.phantom.comparing import join_some
from cxrtext.phantom.description import OMITTED, description
from cxrtext.phantom.grammar import choose, fill, misspell
from cxrtext.phantom.impression import further_axes, impression
from cxrtext.phantom.negation import deny, unchanged
from cxrtext.phantom.population import State
from cxrtext.phantom.wording import Statement, Voice

AXES = {
    "Pneumonia": "pneumonia",
    "Edema": "edema",
    "Pleural Effusion": "effusion",
    "Pneumothorax": "pneumothorax",
    "Cardiomegaly": "cardiomegaly",
}
"""The state's axis of each CheX5 finding, in the order of a report."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report in sentences.

    Args:
        indication: Why the examination was made.
        comparison: What it was compared with.
        findings: The sentences of FINDINGS; empty where there is no such section.
        impression: The sentences of IMPRESSION.
    """

    indication: str
    comparison: str
    findings: tuple[Statement, ...]
    impression: tuple[Statement, ...]

    def sections(self) -> Iterator[tuple[str, tuple[Statement, ...]]]:
        """The two sections that speak of the image, with their names."""
        yield "findings", self.findings
        yield "impression", self.impression

    def evidence(self, finding: str, part: str) -> str:
        """The sentence that tells most of a finding at a place.

        Raises:
            LookupError: No sentence speaks of it.
        """
        for _, statements in self.sections():
            for statement in statements:
                if (finding, part) in statement.shows:
                    return statement.text
        raise LookupError(f"no sentence speaks of {finding}, {part}")


def _finish(voice: Voice, said: list[Statement]) -> tuple[Statement, ...]:
    """Join some sentences, drop repetitions, and let the pen slip."""
    texts: set[str] = set()
    kept = []
    for statement in join_some(voice, said):
        if statement.text not in texts:
            texts.add(statement.text)
            kept.append(replace(statement, text=misspell(voice.generator, statement.text)))
    return tuple(kept)


def write_report(
    generator: np.random.Generator,
    state: State,
    *,
    age: int,
    sex: str,
    before: State | None,
    same: bool,
) -> Report:
    """Write the report of a study.

    Args:
        generator: The source of randomness.
        state: What is to be seen.
        age: In years.
        sex: "F" or "M".
        before: The state of the patient's study before, if there is one.
        same: Whether that one showed the same findings, the lung volume apart.

    Returns:
        The report; each of the five findings that is present is spoken of at least once, every
        other finding unless it is left out, with the probabilities of ``description.OMITTED``.
    """
    voice = Voice(generator)
    shape = generator.random()
    present = [axis for name, axis in AXES.items() if state.labels()[name]]
    others = further_axes(voice, state, OMITTED)
    findings = description(voice, state, before, present, others) if shape > 0.12 else []
    # A report without IMPRESSION says everything under FINDINGS, and the other way round.
    brief: list[Statement] = []
    if shape < 0.86:
        brief = impression(voice, state, before, present, others, not findings)
        if same and voice.chance(0.35):
            brief.append(unchanged(voice))
    if not findings and not brief:
        brief = [deny(voice, "pneumothorax")]
    behind = [name for name, value in state.labels().items() if value and voice.chance(0.7)]
    complaint = choose(generator, COMPLAINTS[behind[0] if behind else ""])
    person = {"F": "woman", "M": "man"}[sex]
    slots = {"age": str(age), "person": person, "complaint": complaint}
    return Report(
        indication=fill(generator, choose(generator, INDICATIONS), **slots),
        comparison=choose(generator, PRIOR if before else NO_PRIOR),
        findings=_finish(voice, findings),
        impression=_finish(voice, brief),
    )
