"""What a scoring run can be asked for, and what it reports.

This imports no torch, so that wrong options are refused at once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO, get_args

from cxrtext.errors import ConfigError, DataError
from cxrtext.text import check_sections

Precision = Literal["float32", "bfloat16", "float16", "int8"]
"""Arithmetic of the network.  float32 is exact; bfloat16 and float16 (GPU only) are several times
faster; int8 (CPU only) faster still where the processor has no bfloat16 units."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

Variant = Literal["original", "within-word-l2r"]
"""What is masked beside the word piece that is asked for: nothing (Salazar et al. 2020), or the
pieces after it in the same word (Kauf and Ivanova 2023), so that a rare word of several pieces is
not given away by its own tail."""

VARIANTS: tuple[Variant, ...] = get_args(Variant)

LONGEST_SENTENCE = 500
"""Word pieces; text of at most 1000 characters that has more is a pasted table, and rejected."""


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """How to score; what each is stands in ``score_reports``."""

    a: float
    k: float
    fit: bool
    sections: tuple[str, ...] | None
    precision: Precision
    variant: Variant
    batch_tokens: int | None
    workers: int
    max_rejected: int
    longest: int
    cache: Path | bool
    tokens: Path | None

    def check(self) -> None:
        """Refuse what is out of range before any work is done.

        Raises:
            ConfigError: Something is.
        """
        if not 0.0 < self.a < 1.0:
            raise ConfigError(f"a is {self.a:g}; it must lie between 0 and 1")
        if not 0.0 <= self.k < float("inf"):
            raise ConfigError(f"k is {self.k:g}; it must be at least 0")
        if self.workers < 1:
            raise ConfigError(f"workers is {self.workers}; it must be at least 1")
        if self.longest < 1:
            raise ConfigError(f"longest is {self.longest}; it must be at least 1")
        check_precision(self.precision)
        check_variant(self.variant)
        if self.sections is not None:
            check_sections(self.sections)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """What a run of scoring did; also the content of ``<out>.meta.json``.

    Args:
        model: Hub id or folder name of the language model.
        fingerprint: SHA-256 of its configuration, weights and vocabulary.
        a: Largest class probability.
        k: Exponent on the likelihood.
        fitted: Whether a and k were fitted to the corpus.
        precision: Arithmetic of the network.
        variant: What is masked beside the word piece asked for.
        reports: Number of reports; of sentences, where sentences were given.
        with_text: Reports with at least one sentence.
        without_text: Reports without; empty sections are normal.
        sentences: Sentences scored.
        distinct_sentences: Of these, different from each other to the model.
        tokens: Word pieces of all sentences.
        words: Words of all sentences, punctuation not counted.
        unknown_words: Of these, such as the vocabulary lacks.
        without_eta: Sentences that have no η, because they are mostly unknown.
        warning: That the text is foreign to the model, or None.
        from_cache: Distinct sentences whose score a cache knew.
        resumed: Distinct sentences whose score was there from a run that was stopped.
        rejected: Rows and sentences rejected, listed in ``<out>.rejected.csv``.
        seconds: Wall-clock time.
    """

    model: str
    fingerprint: str
    a: float
    k: float
    fitted: bool
    precision: str
    variant: str
    reports: int
    with_text: int
    without_text: int
    sentences: int
    distinct_sentences: int
    tokens: int
    words: int
    unknown_words: int
    without_eta: int
    warning: str | None
    from_cache: int
    resumed: int
    rejected: int
    seconds: float


def check_precision(precision: str) -> None:
    """Raise a ConfigError for a precision of no such name."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision '{precision}' is not one of {', '.join(PRECISIONS)}")


def check_variant(variant: str) -> None:
    """Raise a ConfigError for a variant of no such name."""
    if variant not in VARIANTS:
        raise ConfigError(f"variant '{variant}' is not one of {', '.join(VARIANTS)}")


def check_paths(reports: Path | str, out: Path | TextIO, tokens: Path | None) -> None:
    """Refuse outputs that are no tables, or would replace the input or each other.

    Raises:
        DataError: One does.
    """
    for path in (out, tokens):
        if not isinstance(path, Path):
            continue
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise DataError(f"{path}: a table of sentences or tokens ends in .csv or .parquet")
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name a file to write")
        given = Path(reports)
        if str(reports) != "-" and path.exists() and given.exists() and path.samefile(given):
            raise DataError(f"{path}: is the input; name another file to write")
    if isinstance(out, Path) and tokens and out.resolve() == tokens.resolve():
        raise DataError(f"{out}: is the table of sentences; name another file for the tokens")
