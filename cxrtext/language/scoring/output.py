"""What a scoring run writes when all scores are there."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from cxrtext.language.class_probability import WordCounter, eta_of
from cxrtext.language.scoring.work import ScoreWork
from cxrtext.models.masked_language_model import MaskedLanguageModel
from cxrtext.records import Rejects, RowWriter, SentenceWriter
from cxrtext.records.row_writer import Kind
from cxrtext.text.tokenizer import vocabulary_of

TOKEN_COLUMNS: dict[str, Kind] = {
    "study_id": "text",
    "section": "text",
    "position": "whole",
    "token_index": "whole",
    "token": "text",
    "log_likelihood": "real",
}
"""The table of word pieces: one row each, ``token_index`` from 0 in the sentence."""


def write_results(
    work: ScoreWork,
    out: Path | TextIO,
    tokens: Path | None,
    language: MaskedLanguageModel,
    a: float,
    k: float,
) -> None:
    """Write the table of sentences and, where wanted, the table of word pieces.

    Args:
        work: The work file, every sentence scored.
        out: The table of sentences, or a stream for CSV.
        tokens: The table of word pieces.
        language: Names the word pieces.
        a: Largest class probability.
        k: Exponent on the likelihood.
    """
    names, counter = vocabulary_of(language.tokenizer), WordCounter(language.tokenizer)
    with ExitStack() as closing:
        writer = closing.enter_context(SentenceWriter(out))
        pieces_writer = (
            None if tokens is None else closing.enter_context(RowWriter(tokens, TOKEN_COLUMNS))
        )
        for sentence, pieces, values in work.results():
            words = counter.count(pieces)
            eta = eta_of(sentence.log_likelihood, words, a, k)
            writer.add(replace(sentence, eta=eta, unknown=words.unknown))
            if pieces_writer is not None:
                place = (sentence.study_id, sentence.section, sentence.position)
                for number, (piece, value) in enumerate(zip(pieces, values, strict=True)):
                    row = (*place, number, names[piece], float(value))
                    pieces_writer.write(dict(zip(TOKEN_COLUMNS, row, strict=True)))


def write_rejects(out: Path, rejected: Sequence[tuple[str, str]]) -> None:
    """Write ``<out>.rejected.csv``, or remove an old one."""
    Rejects(len(rejected), list(rejected)).write(out)
