"""What one row of the user's tables becomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Study:
    """One report: a whole text, or texts by section.

    Args:
        study_id: The study the report belongs to.
        report: The whole report, where the table has a column of it; "" otherwise.
        sections: Texts by section name (``findings``, ``impression``, ``indication``,
            ``comparison``), where the table has such columns.
        row: The row of the table, the first after the header being 1.
    """

    study_id: str
    report: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)
    row: int = 0


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a report, with what the language model says of it.

    Args:
        study_id: The study it belongs to.
        section: The section it stands in; "report" where the report has no headings.
        position: Its place in the section, from 0.
        sentence: The text.
        n_tokens: Number of word pieces, special tokens not counted.
        log_likelihood: Pseudo-log-likelihood, in nats.
        eta: Estimated class probability, in (0, 1); None where the language model knows too few of
            the words.
        unknown: Words that its vocabulary lacks.
    """

    study_id: str
    section: str
    position: int
    sentence: str
    n_tokens: int = 0
    log_likelihood: float = 0.0
    eta: float | None = 0.0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One image of a manifest.

    Args:
        path: Where the image lies.
        name: The ``image`` cell of the manifest, as written.
        study_id: The study it belongs to.
        patient_id: The patient it belongs to.
        split: "train", "val" or "test".
        metadata: Every other cell of the row, by column.
        row: The row of the manifest, the first after the header being 1.
    """

    path: Path
    name: str
    study_id: str
    patient_id: str
    split: str = "train"
    metadata: Mapping[str, str] = field(default_factory=dict)
    row: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something of an input that is rejected.

    Args:
        item: Where it stands: "row 17", or the relative path of a file; never report text.
        reason: One line: what is wrong, and what to do.
    """

    item: str
    reason: str
