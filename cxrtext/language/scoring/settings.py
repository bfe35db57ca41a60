"""What a scoring run can be asked for, and what it reports.

This imports no torch, so that wrong options are refused at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO, get_args

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import ConfigError, DataError
from cxrtext.text import check_sections

Precision = Literal["float32", "bfloat16", "float16"]
"""Arithmetic of the network.  float32 is exact; bfloat16 and float16 (GPU only) are several times
faster."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSettings:
    """How to score: what decides the scores and η, and what is kept and written of them."""

    a: float = DEFAULT_A  # largest class probability, in (0, 1)
    k: float = DEFAULT_K  # exponent on the likelihood
    fit: bool = False  # a and k to how often the very same sentences recur, instead
    sections: Sequence[str] | None = None  # that are kept; None: those that describe the image
    precision: Precision = "float32"
    batch_tokens: int | None = None  # in one forward pass, which bounds the memory; None: by device
    max_rejected: int = 100  # rows and sentences
    # The file of scores that outlives the run; True is ``scores.sqlite`` beside the output.
    cache: Path | bool = True

    def check(self) -> None:
        """Refuse what is out of range before any work is done (ConfigError)."""
        if not 0.0 < self.a < 1.0:
            raise ConfigError(f"a is {self.a:g}; it must lie between 0 and 1")
        if not 0.0 <= self.k < float("inf"):
            raise ConfigError(f"k is {self.k:g}; it must be at least 0")
        check_precision(self.precision)
        if self.sections is not None:
            check_sections(self.sections)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """What a run of scoring did; also the content of ``<out>.meta.json``."""

    model: str  # hub id or folder name of the language model
    fingerprint: str  # SHA-256 of its configuration, weights and vocabulary
    a: float  # largest class probability
    k: float  # exponent on the likelihood
    fitted: bool  # whether a and k were fitted to the corpus
    precision: str  # arithmetic of the network
    reports: int  # number of reports; of sentences, where sentences were given
    with_text: int  # reports with at least one sentence
    without_text: int  # reports without; empty sections are normal
    understood: float  # the share of sentences that the rules of labels understand
    by_language: dict[str, float]  # the same of each language; "unknown" of others
    by_section: dict[str, float]
    sentences: int  # sentences scored
    distinct_sentences: int  # of these, different from each other to the model
    tokens: int  # word pieces of all sentences
    words: int  # words of all sentences, punctuation not counted
    unknown_words: int  # of these, such as the vocabulary lacks
    without_eta: int  # sentences that have no η, because they are mostly unknown
    warning: str | None  # that the text is foreign to the model, or made of labels, or None
    from_cache: int  # distinct sentences whose score the cache had
    rejected: int  # rows and sentences rejected, listed in ``<out>.rejected.csv``
    seconds: float  # wall-clock time


def check_precision(precision: str) -> None:
    """Raise a ConfigError for a precision of no such name."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision '{precision}' is not one of {', '.join(PRECISIONS)}")


def check_paths(reports: Path | str, out: Path | TextIO) -> None:
    """Refuse an output that is not a table, or would replace the input (DataError)."""
    if not isinstance(out, Path):
        return
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{out}: a table of sentences ends in .csv or .parquet")
    if out.is_dir():
        raise DataError(f"{out}: is a folder; name a file to write")
    given = Path(reports)
    if str(reports) != "-" and out.exists() and given.exists() and out.samefile(given):
        raise DataError(f"{out}: is the input; name another file to write")
