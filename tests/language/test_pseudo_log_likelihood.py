import copy

import numpy as np
import pytest
import torch

from cxrtext.errors import CheckpointError, DataError
from cxrtext.language import score_sentences, score_sentences_detailed
from cxrtext.language.scoring.network import MaskedCopies, MaskedNetwork
from cxrtext.models.masked_lm import MaskedLanguageModel
from tests.language.conftest import plain_scores

WORDS = ["no", "lungs", "are", "clear"]

TEXTS = [
    "The lungs are clear.",
    "No pneumothorax.",
    "Heart size is normal.",
    "There is a small left pleural effusion.",
    "No.",
    "zygomatic",
]


def by_definition(tiny: MaskedLanguageModel, text: str) -> tuple[int, float]:
    """Number of word pieces, and Salazar et al. 2020, eq. 2, one pass a word piece."""
    pieces = tiny.tokenizer(text, add_special_tokens=False)["input_ids"]
    return len(pieces), plain_scores(tiny.model, pieces, tiny.window).sum()


@pytest.mark.parametrize("batch_tokens", [1, 40, 100_000])
def test_it_equals_the_definition_whatever_the_company(
    tiny: MaskedLanguageModel, batch_tokens: int
) -> None:
    texts = [*TEXTS, *reversed(TEXTS)]
    expected = [by_definition(tiny, text)[1] for text in texts]
    found = score_sentences(texts, tiny, batch_tokens=batch_tokens)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.ptp(expected) > 1


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Copies and tokens of each forward pass, filled as the test goes."""
    seen: list[tuple[int, int]] = []
    plain = MaskedNetwork.log_probabilities

    def noted(network: MaskedNetwork, copies: MaskedCopies, mask_id: int) -> torch.Tensor:
        seen.append((len(copies.masked), copies.masked.numel()))
        return plain(network, copies, mask_id)

    monkeypatch.setattr(MaskedNetwork, "log_probabilities", noted)
    return seen


def test_equal_sentences_are_scored_once_and_no_pass_exceeds_the_budget(
    tiny: MaskedLanguageModel, passes: list[tuple[int, int]]
) -> None:
    score_sentences(["No pneumothorax."] * 50 + ["The lungs are clear."] * 50, tiny)
    assert sum(rows for rows, _ in passes) == 3 + 5
    passes.clear()
    long = " ".join(["no"] * 500 + ["lungs"] * 500)
    scores = score_sentences_detailed([*TEXTS, long], tiny, batch_tokens=200)
    assert scores.n_tokens[-1] == 1000
    assert sum(rows for rows, _ in passes) == scores.n_tokens.sum()
    assert 180 < max(tokens for _, tokens in passes) <= 200
    passes.clear()
    score_sentences(TEXTS, tiny, batch_tokens=1)  # below one copy the budget gives way
    assert {rows for rows, _ in passes} == {1}


@pytest.mark.parametrize("empty", ["", "   ", "\x00"])
def test_an_empty_sentence_is_named_by_its_place(tiny: MaskedLanguageModel, empty: str) -> None:
    with pytest.raises(DataError, match="sentence 1 "):
        score_sentences(["No.", empty], tiny)
    assert score_sentences([], tiny).shape == (0,)


def test_damaged_weights_do_not_pass_as_scores(tiny: MaskedLanguageModel) -> None:
    damaged = copy.deepcopy(tiny)
    with torch.no_grad():
        damaged.model.cls.predictions.bias[0] = float("inf")
    with pytest.raises(CheckpointError, match="'tiny' gives likelihoods that are not finite"):
        score_sentences(TEXTS, damaged)


def test_word_pieces_and_their_values_make_the_sentence(tiny: MaskedLanguageModel) -> None:
    scores = score_sentences_detailed(TEXTS, tiny)
    for number, text in enumerate(TEXTS):
        values = scores.token_log_likelihood[number]
        assert scores.tokens[number] == tiny.tokenizer.tokenize(text)
        assert len(values) == scores.n_tokens[number] == len(scores.tokens[number])
        assert values.dtype == np.float32
        assert (values <= 0).all()
        assert scores.log_likelihood[number] == values.sum(dtype=np.float64)
    scores = score_sentences_detailed(["No pneumothorax.", "No.", "no PNEUMOTHORAX."], tiny)
    assert scores.n_tokens.tolist() == [3, 2, 3]
    assert scores.log_likelihood[0] == scores.log_likelihood[2] != scores.log_likelihood[1]
