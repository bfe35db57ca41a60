import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cxrtext.errors import CheckpointError, DataError
from cxrtext.language import score_sentences, score_sentences_detailed
from cxrtext.language.scoring.network import MaskedCopies, MaskedNetwork
from cxrtext.language.scoring.score import MAX_GROUP, groups_of
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


@pytest.mark.parametrize("least", [0, 1, 24], ids=["the window", "one more", "twice as long"])
def test_a_sentence_as_long_as_the_window_or_longer(tiny: MaskedLanguageModel, least: int) -> None:
    text = " ".join(itertools.islice(itertools.cycle(WORDS), tiny.window + least))
    pieces, expected = by_definition(tiny, text)
    assert pieces == tiny.window + least
    scores = score_sentences_detailed([text], tiny)
    assert scores.n_tokens.tolist() == [pieces]
    np.testing.assert_allclose(scores.log_likelihood, [expected], rtol=1e-5)


@pytest.mark.parametrize("empty", ["", "   ", "\x00"])
def test_an_empty_sentence_is_named_by_its_place(tiny: MaskedLanguageModel, empty: str) -> None:
    with pytest.raises(DataError, match="sentence 1 "):
        score_sentences(["No.", empty], tiny)
    assert score_sentences([], tiny).shape == (0,)


def test_damaged_weights_do_not_pass_as_scores(tiny: MaskedLanguageModel) -> None:
    damaged = copy.deepcopy(tiny)
    with torch.no_grad():
        damaged.model.cls.predictions.bias[0] = float("inf")
    with pytest.raises(CheckpointError, match="'tiny' gives likelihoods that are no finite"):
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


@given(
    lengths=st.lists(st.integers(1, 30), max_size=60),
    window=st.integers(1, 20),
    batch_tokens=st.integers(1, 500),
)
def test_groups_hold_every_sentence_once_in_order_of_length(
    lengths: list[int], window: int, batch_tokens: int
) -> None:
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups = list(groups_of(order, lengths.__getitem__, window, batch_tokens))
    assert [index for group in groups for index in group] == order
    for group in groups:
        length = lengths[group[0]]
        assert {lengths[index] for index in group} == {length}
        tokens = len(group) * length * (min(length, window) + 2)
        assert tokens <= batch_tokens or len(group) == 1
    for one, other in itertools.pairwise(groups):
        length = lengths[one[0]]
        full = (len(one) + 1) * length * (min(length, window) + 2) > batch_tokens
        assert full or lengths[other[0]] > length


def test_groups_are_bounded_and_made_as_they_are_asked_for() -> None:
    groups = groups_of(range(2 * MAX_GROUP + 3), lambda _: 1, window=10, batch_tokens=10**9)
    assert [len(group) for group in groups] == [MAX_GROUP, MAX_GROUP, 3]
    sentences = iter([1, 1, 1, 2])
    groups = groups_of(sentences, lambda length: length, window=10, batch_tokens=6)
    assert next(groups) == [1, 1]
    assert list(sentences) == [2]
