"""Words that the vocabulary lacks: counted, said, and no η for a sentence of little else."""

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.language import score_sentences_detailed
from cxrtext.language.class_probability import WordCounter, Words, eta_of
from cxrtext.language.eta import fit_class_probability
from cxrtext.language.scoring.score import encode_pieces
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.objectives.debiasing import MIN_ETA
from cxrtext.records import read_sentences
from tests.conftest import read_csv
from tests.language.conftest import Score

FOREIGN_TEXT = "Легкие чистые."


@pytest.mark.parametrize(
    ("sentence", "words", "unknown"),
    [
        ("The lungs are clear.", 4, 0),
        (FOREIGN_TEXT, 2, 2),
        ("Effusion, легкие: 3 mm!", 4, 1),
        ("x" * 5000, 1, 1),
        ("... - (!)", 0, 0),
        ("clear \u2192 clear", 3, 1),
    ],
)
def test_words_are_counted_and_marks_are_not(
    tiny: MaskedLanguageModel, sentence: str, words: int, unknown: int
) -> None:
    (pieces,) = encode_pieces(tiny.tokenizer, [sentence])
    assert WordCounter(tiny.tokenizer).count(pieces) == Words(words, unknown)


@pytest.mark.parametrize(
    ("words", "unknown", "none"),
    [(4, 0, False), (4, 1, False), (5, 2, False), (4, 2, True), (1, 1, True), (0, 0, False)],
)
def test_half_of_the_words_must_be_known(words: int, unknown: int, none: bool) -> None:
    eta = eta_of(-2.0, Words(words, unknown), 0.2, 0.35)
    assert (eta is None) == none
    if eta is not None:
        assert eta == pytest.approx(0.2 * 2.718281828459045 ** (-0.7))
    assert eta_of(-1e6, Words(3, 0), 0.2, 0.35) == MIN_ETA


def test_sentences_in_memory(tiny: MaskedLanguageModel) -> None:
    scores = score_sentences_detailed(["The lungs are clear.", FOREIGN_TEXT], tiny)
    clear, foreign = scores.eta(0.2, 0.35)
    assert clear is not None
    assert foreign is None
    # The model finds [UNK] likely, or may; the likelihood is what it says, and no more.
    assert (scores.log_likelihood < 0).all()
    assert [each.unknown for each in scores.words] == [0, 2]


Write = Callable[..., Path]


@pytest.fixture
def written(score: Score, reports: Path, tmp_path: Path) -> Write:
    """Scores reports of these texts."""

    def write(texts: list[str], name: str = "out.csv", **options: Any) -> Path:
        with reports.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerows([["study_id", "findings"], *enumerate(texts)])
        score(name, **options)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_the_table_says_what_is_unknown(written: Write, name: str) -> None:
    texts = ["The lungs are clear. " + FOREIGN_TEXT, "No легкие pneumothorax.", "x" * 5000]
    out = written(texts, f"out.{name}")
    rows = read_sentences(out)
    assert [row.unknown for row in rows] == [0, 2, 1, 1]
    assert [row.eta is None for row in rows] == [False, True, False, True]
    assert rows[3].sentence == "x" * 5000  # one sentence, not five
    assert rows[3].n_tokens == 1
    meta = json.loads(out.with_name(out.name + ".meta.json").read_text())
    assert (meta["words"], meta["unknown_words"], meta["without_eta"]) == (10, 4, 2)
    assert meta["warning"].startswith("40.0% of the words")
    if name == "csv":
        table = read_csv(out)
        assert list(table[0])[-1] == "unknown"
        assert [row["eta"] == "" for row in table] == [False, True, False, True]


def test_a_corpus_of_unknown_sentences_is_refused(written: Write, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"reports.csv: the language model knows too few of its"):
        written([FOREIGN_TEXT, "Без выпота."])
    assert not list(tmp_path.glob("out.csv*.partial"))


def test_unknown_sentences_have_no_part_in_a_fit(written: Write) -> None:
    said = [f"No {one} {other}." for one in "abcdefgh" for other in ("effusion", "clear", "left")]
    texts = [*said, *said[:9], *said[:3], *["Норма."] * 200]

    rows = read_sentences(written(texts, fit=True))
    known = [row for row in rows if row.eta is not None]
    assert len(known) == len(texts) - 200
    counts = Counter(row.log_likelihood for row in known)
    values = np.array(list(counts))
    a, k = fit_class_probability(values, np.array(list(counts.values())))
    wanted = [a * np.exp(k * row.log_likelihood) for row in known]
    np.testing.assert_allclose([row.eta or 0.0 for row in known], wanted, rtol=1e-5)
