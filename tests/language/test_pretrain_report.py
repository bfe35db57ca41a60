import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from cxrtext.language import PretrainSummary, pretrain_text, read_corpus, score_sentences_detailed
from cxrtext.language.pretraining.batches import hold_out
from cxrtext.language.pretraining.pretrain import perplexity_sample
from cxrtext.language.pretraining.summary import measure_coverage
from cxrtext.language.scoring.score import encode_pieces
from cxrtext.models.masked_lm import load_masked_language_model
from cxrtext.text.tokenizer import make_tokenizer

SECRET = "Zebulon Quill was seen here."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PretrainSummary]:
    folder = tmp_path_factory.mktemp("report")
    rows = "".join(
        f"s{n},The lungs are clear. No pleural effusion or pneumothorax. "
        f"Heart size is {('normal', 'enlarged')[n % 2]}.{' ' + SECRET if n == 5 else ''}\n"
        for n in range(120)
    )
    (folder / "reports.csv").write_text("study_id,report\n" + rows)
    summary = pretrain_text(
        folder / "reports.csv",
        folder / "lm",
        size="demo",
        hidden=32,
        layers=1,
        vocabulary_size=300,
        epochs=30,
        learning_rate=6e-3,
        device="cpu",
    )
    return folder / "lm", summary


def test_the_folder_notes_what_was_learned(folder: tuple[Path, PretrainSummary]) -> None:
    out, summary = folder
    noted = json.loads((out / "training.json").read_text())
    del noted["settings"]
    assert noted == json.loads(json.dumps(asdict(summary)))
    for measured in (summary.validation_loss, summary.pseudo_perplexity):
        assert len(measured) == 30
    assert summary.pseudo_perplexity[-1] < 0.5 * summary.pseudo_perplexity[0]
    assert summary.validation_loss[-1] < 0.5 * summary.validation_loss[0]
    assert summary.coverage.unknown == 0
    assert 1 <= summary.coverage.pieces_per_word < 1.2


def test_no_report_text_stands_in_what_is_noted(folder: tuple[Path, PretrainSummary]) -> None:
    text = (folder[0] / "training.json").read_text().lower()
    for word in ("zebulon", "was seen here", "lungs"):
        assert word not in text


def test_the_measurements_are_of_the_weights_that_were_written(
    folder: tuple[Path, PretrainSummary],
) -> None:
    """The network changes from epoch to epoch: nothing of an earlier one may be remembered."""
    out, summary = folder
    loaded = load_masked_language_model(out)
    reports = out.with_name("reports.csv")
    sentences = hold_out(reports, read_corpus(reports), 0).validation
    scores = score_sentences_detailed(sentences, loaded)
    perplexity = np.exp(-scores.log_likelihood.sum() / scores.n_tokens.sum())
    assert summary.perplexity == pytest.approx(perplexity, abs=2e-3)
    assert len(set(summary.pseudo_perplexity)) > 20


def test_coverage_counts_words_and_their_pieces() -> None:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "no", "pneumo", "##thor", "##ax", "."]
    tokenizer = make_tokenizer({name: number for number, name in enumerate(names)})
    pieces = encode_pieces(tokenizer, ["No pneumothorax.", "No zebra."])
    coverage = measure_coverage(tokenizer, pieces)
    assert coverage.words == 6  # no pneumothorax . no [UNK] .
    assert coverage.pieces_per_word == pytest.approx(8 / 6, abs=1e-4)
    assert coverage.whole == pytest.approx(4 / 6, abs=1e-4)
    assert coverage.unknown == pytest.approx(1 / 6, abs=1e-6)
    assert measure_coverage(tokenizer, []).words == 0


def test_the_sample_keeps_to_its_budget_and_is_never_empty() -> None:
    sentences = ["a", "a", "b", "c"]
    pieces = [(1, 2), (1, 2), (3, 4, 5), (6,)]
    assert perplexity_sample(sentences, pieces, 10, 0) == ["a", "a"]
    assert perplexity_sample(sentences, pieces, 10, 8 + 15) == ["a", "a", "b"]
    assert perplexity_sample(sentences, pieces, 10, 1e9) == sentences
