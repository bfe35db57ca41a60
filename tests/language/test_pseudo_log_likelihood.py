import numpy as np
import pytest
import torch

from cxrtext.errors import CheckpointError, DataError
from cxrtext.language import score_sentences, score_sentences_detailed
from cxrtext.language.scoring.batches import plan_groups
from cxrtext.models.masked_language_model import MaskedLanguageModel

TEXTS = [
    "The lungs are clear.",
    "No pneumothorax.",
    "Heart size is normal.",
    "There is a small left pleural effusion.",
    "No.",
    "zygomatic",
]


def one_pass_a_token(language: MaskedLanguageModel, sentence: str) -> float:
    """METHOD section 1 as plain loops, in float64, the whole head on every position."""
    model, tokenizer = language.model, language.tokenizer
    model.double()
    try:
        ids = tokenizer(sentence)["input_ids"]
        total = 0.0
        for place in range(1, len(ids) - 1):
            masked = list(ids)
            masked[place] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([masked])).logits[0, place]
            total += float(torch.log_softmax(logits, -1)[ids[place]])
        return total
    finally:
        model.float()


@pytest.mark.parametrize("batch_tokens", [1, 40, 100_000])
def test_it_equals_the_definition(tiny: MaskedLanguageModel, batch_tokens: int) -> None:
    expected = [one_pass_a_token(tiny, text) for text in TEXTS]
    found = score_sentences(TEXTS, tiny, batch_tokens=batch_tokens)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.ptp(expected) > 1


def test_the_score_does_not_depend_on_the_company(tiny: MaskedLanguageModel) -> None:
    together = score_sentences([*TEXTS, *reversed(TEXTS)], tiny)
    alone = [score_sentences([text], tiny)[0] for text in TEXTS]
    np.testing.assert_allclose(together, [*alone, *reversed(alone)], rtol=1e-5)


def test_word_pieces_are_counted_and_order_is_kept(tiny: MaskedLanguageModel) -> None:
    scores = score_sentences_detailed(["No pneumothorax.", "No.", "no PNEUMOTHORAX."], tiny)
    assert scores.n_tokens.tolist() == [3, 2, 3]
    assert scores.log_likelihood[0] == scores.log_likelihood[2] != scores.log_likelihood[1]


class Calls:
    """Counts what reaches the network and its vocabulary head."""

    def __init__(self, language: MaskedLanguageModel) -> None:
        self.rows, self.tokens, self.decoded = 0, [0], 0
        self.hooks = [
            language.model.bert.register_forward_pre_hook(self.encoder, with_kwargs=True),
            language.model.cls.register_forward_pre_hook(self.head),
        ]

    def encoder(self, module: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        self.rows += len(kwargs["input_ids"])
        self.tokens.append(kwargs["input_ids"].numel())

    def head(self, module: object, args: tuple[torch.Tensor, ...]) -> None:
        self.decoded += args[0].shape[:-1].numel()

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()


def test_equal_sentences_are_scored_once_and_only_masked_places_are_decoded(
    tiny: MaskedLanguageModel,
) -> None:
    calls = Calls(tiny)
    score_sentences(["No pneumothorax."] * 50 + ["The lungs are clear."] * 50, tiny)
    calls.close()
    assert calls.rows == calls.decoded == 3 + 5


def test_no_pass_exceeds_the_budget(tiny: MaskedLanguageModel) -> None:
    calls = Calls(tiny)
    score_sentences(TEXTS, tiny, batch_tokens=50)
    calls.close()
    assert 20 < max(calls.tokens) <= 50


def test_a_sentence_longer_than_the_window_is_scored_piece_by_piece(
    tiny: MaskedLanguageModel,
) -> None:
    text = " ".join(TEXTS[:4] * 3)
    ids = tiny.tokenizer(text, add_special_tokens=False)["input_ids"]
    window = tiny.window
    assert len(ids) > 2 * window
    expected = 0.0
    for place, target in enumerate(ids):
        start = min(max(place - window // 2, 0), len(ids) - window)
        piece = ids[start : start + window]
        piece[place - start] = tiny.tokenizer.mask_token_id
        row = [tiny.tokenizer.cls_token_id, *piece, tiny.tokenizer.sep_token_id]
        with torch.no_grad():
            logits = tiny.model(input_ids=torch.tensor([row])).logits[0, place - start + 1]
        expected += float(torch.log_softmax(logits, -1)[target])
    scores = score_sentences_detailed([text], tiny)
    assert scores.n_tokens.tolist() == [len(ids)]
    np.testing.assert_allclose(scores.log_likelihood, [expected], rtol=1e-5)


def test_a_sentence_of_exactly_the_window_fits(tiny: MaskedLanguageModel) -> None:
    text = " ".join(["no"] * tiny.window)
    np.testing.assert_allclose(
        score_sentences([text], tiny), [one_pass_a_token(tiny, text)], rtol=1e-5
    )


def test_no_sentences_give_no_scores(tiny: MaskedLanguageModel) -> None:
    assert score_sentences([], tiny).shape == (0,)


@pytest.mark.parametrize("empty", ["", "   ", "\x00"])
def test_an_empty_sentence_is_named_by_its_place(tiny: MaskedLanguageModel, empty: str) -> None:
    with pytest.raises(DataError, match="sentence 1 "):
        score_sentences(["No.", empty], tiny)


def test_progress_ends_with_all(tiny: MaskedLanguageModel) -> None:
    seen: list[tuple[int, int]] = []
    score_sentences([*TEXTS, *TEXTS], tiny, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (len(TEXTS), len(TEXTS))


def test_damaged_weights_do_not_pass_as_scores(tiny: MaskedLanguageModel) -> None:
    bias = tiny.model.cls.predictions.bias
    before = bias.detach().clone()
    with torch.no_grad():
        bias[0] = float("inf")
    try:
        with pytest.raises(CheckpointError, match="'tiny' gives likelihoods that are no finite"):
            score_sentences(TEXTS, tiny)
    finally:
        with torch.no_grad():
            bias.copy_(before)


def test_bfloat16_is_near_float32(tiny: MaskedLanguageModel) -> None:
    exact = score_sentences(TEXTS, tiny)
    fast = score_sentences(TEXTS, tiny, precision="bfloat16")
    np.testing.assert_allclose(fast, exact, rtol=0.05)
    assert not np.array_equal(fast, exact)


def test_groups_have_one_length_and_keep_the_budget() -> None:
    lengths = [3, 7, 3, 3, 50, 7, 3]
    groups = plan_groups(lengths, window=10, batch_tokens=31)
    assert groups == [[0, 2], [3, 6], [1], [5], [4]]
    assert plan_groups(lengths, window=10, batch_tokens=31, most=1) == [
        [0], [2], [3], [6], [1], [5], [4]
    ]  # fmt: skip
