import pytest
import torch
from torch import Tensor

from cxrtext.language.pretraining.batches import SpecialIds, collate, mask_words

CONTINUES = torch.tensor([False] * 50 + [True] * 50)
"""A vocabulary of 100: from 50 on, pieces continue a word."""

SPECIAL = SpecialIds(0, 2, 3, 4, all=torch.arange(5), continues=CONTINUES)
WORDS = ((10,), (11, 60, 61), (12,), (13, 62), (14,), (15,))
SENTENCE = tuple(piece for word in WORDS for piece in word)


def mask(
    sentences: list[tuple[int, ...]], special: SpecialIds, share: float = 0.15, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, the ids with pieces hidden, and where they were chosen."""
    ids, eligible, starts = collate(sentences, special)
    generator = torch.Generator().manual_seed(seed)
    hidden, chosen = mask_words(
        ids, eligible, starts, mask_id=4, vocabulary_size=100, share=share, generator=generator
    )
    assert not bool(chosen[~eligible].any())
    assert torch.equal(hidden[~chosen], ids[~chosen])
    return ids, hidden, chosen


def spans() -> list[slice]:
    """Where each word of the sentence stands, after [CLS]."""
    ends = torch.tensor([len(word) for word in WORDS]).cumsum(0).tolist()
    return [slice(end - len(word) + 1, end + 1) for word, end in zip(WORDS, ends, strict=True)]


def test_all_pieces_of_a_word_are_chosen_together_or_none() -> None:
    _, _, chosen = mask([SENTENCE] * 500, SPECIAL)
    for span in spans():
        word = chosen[:, span]
        assert torch.equal(word.any(dim=1), word.all(dim=1))
        assert 0 < int(word[:, 0].sum()) < 500  # long words too, in so short a sentence


def test_words_are_chosen_until_the_share_is_reached_and_no_further() -> None:
    for share in (0.05, 0.15, 0.4, 0.8):
        _, _, chosen = mask([SENTENCE] * 200, SPECIAL, share)
        count = chosen.sum(dim=1)
        assert bool((count >= share * len(SENTENCE)).all())
        for row in chosen:
            sizes = [len(word) for word, span in zip(WORDS, spans(), strict=True) if row[span][0]]
            # Whichever word was the last one taken: without it the share was not reached.
            assert sum(sizes) - max(sizes) < share * len(SENTENCE)


def test_what_happens_to_a_word_is_decided_once() -> None:
    ids, hidden, chosen = mask([SENTENCE] * 3000, SPECIAL)
    span = spans()[1]
    rows = chosen[:, span].all(dim=1)
    before, after = ids[rows, span], hidden[rows, span]
    masked = (after == 4).all(dim=1)
    left = (after == before).all(dim=1)
    assert torch.equal(masked, (after == 4).float().mean(dim=1) > 0.5)
    assert float(masked.float().mean()) == pytest.approx(0.8, abs=0.05)
    assert float(left.float().mean()) == pytest.approx(0.1, abs=0.05)
    replaced = after[~masked & ~left]
    assert bool((replaced[:, 0] != replaced[:, 1]).any())  # each piece by one of its own


def test_every_sentence_has_something_to_guess() -> None:
    ids, _, chosen = mask([(7,), (8, 9)], SPECIAL, share=1e-9)
    assert ids.tolist() == [[2, 7, 3, 0], [2, 8, 9, 3]]
    assert chosen.sum(dim=1).tolist() == [1, 1]
