"""The settings of a scoring run, and its summary.

This does not import torch, so wrong options are refused at once.
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
    """How to score, and what is kept."""

    a: float = DEFAULT_A  # largest class probability, in (0, 1)
    k: float = DEFAULT_K  # exponent on the likelihood
    fit: bool = False  # whether to fit a and k to how often sentences recur
    sections: Sequence[str] | None = None  # sections to score; None: those that describe the image
    precision: Precision = "float32"
    batch_tokens: int | None = None  # in one forward pass, which bound the memory; None: by device
    max_rejected: int = 100  # rows and sentences
    # The file of scores kept after the run; True is ``scores.sqlite`` beside the output.
    cache: Path | bool = True

    def check(self) -> None:
        """Refuse values out of range before any work is done (ConfigError)."""
        if not 0.0 < self.a < 1.0:
            raise ConfigError(f"a is {self.a:g}; it must lie between 0 and 1")
        if not 0.0 <= self.k < float("inf"):
            raise ConfigError(f"k is {self.k:g}; it must be at least 0")
        check_precision(self.precision)
        if self.sections is not None:
            check_sections(self.sections)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """What a scoring run did; also the content of ``<out>.meta.json``."""

    model: str  # hub id or folder name of the language model
    fingerprint: str  # SHA-256 of its configuration, weights and vocabulary
    a: float  # largest class probability
    k: float  # exponent on the likelihood
    fitted: bool  # whether a and k were fitted to the corpus
    precision: str  # arithmetic of the network
    reports: int  # number of reports, or of sentences if sentences were given
    with_text: int  # reports with at least one sentence
    without_text: int  # reports without any; empty sections are normal
    understood: float  # the share of sentences that the label rules understand
    by_language: dict[str, float]  # the same for each language; "unknown" for others
    by_section: dict[str, float]
    sentences: int  # sentences scored
    distinct_sentences: int  # sentences that differ for the model
    tokens: int  # word pieces of all sentences
    words: int  # words of all sentences, without punctuation
    unknown_words: int  # words that are not in the vocabulary
    without_eta: int  # sentences without η, because they are mostly unknown
    warning: str | None  # that the text is foreign to the model or made from labels, or None
    from_cache: int  # distinct sentences with a score in the cache
    rejected: int  # rejected rows and sentences, listed in ``<out>.rejected.csv``
    seconds: float  # wall-clock time


def check_precision(precision: str) -> None:
    """Raise a ConfigError for an unknown precision."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision '{precision}' is not one of {', '.join(PRECISIONS)}")


def check_paths(reports: Path | str, out: Path | TextIO) -> None:
    """Refuse an output that is not a table or would replace the input (DataError)."""
    if not isinstance(out, Path):
        return
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{out}: a table of sentences ends in .csv or .parquet")
    if out.is_dir():
        raise DataError(f"{out}: is a folder; name a file to write")
    given = Path(reports)
    if str(reports) != "-" and out.exists() and given.exists() and out.samefile(given):
        raise DataError(f"{out}: is the input; name another file to write")
