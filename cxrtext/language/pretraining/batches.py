"""Sentences for training a masked language model: held-out studies, batches, padding, masks."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.language.corpus import Corpus
from cxrtext.language.scoring.score import SPECIAL, Pieces
from cxrtext.text.tokenizer import TextTokenizer, continues_word

HELD_OUT_SHARE, HELD_OUT_MAX = 0.05, 1000
"""Studies held out for validation: this share, but at most this number."""


@dataclass(frozen=True, slots=True)
class HeldOutSplit:
    """Sentences for training, and sentences of other studies; repeated ones are kept."""

    training: list[str]
    validation: list[str]

    def digest(self) -> str:
        """SHA-256 of both parts."""
        text = "\x00".join([*self.training, "\x01", *self.validation])
        return hashlib.sha256(text.encode()).hexdigest()


def hold_out(reports: Path, corpus: Corpus, seed: int) -> HeldOutSplit:
    """Hold out random studies (DataError if fewer than two have text)."""
    studies = [[sentence.sentence for sentence in study] for study in corpus.studies if study]
    if len(studies) < 2:
        raise DataError(f"{reports}: one report with text is too little to train on")
    order = torch.randperm(len(studies), generator=torch.Generator().manual_seed(seed)).tolist()
    held = set(order[: min(HELD_OUT_MAX, max(1, round(HELD_OUT_SHARE * len(studies))))])
    return HeldOutSplit(
        [text for number, study in enumerate(studies) if number not in held for text in study],
        [text for number, study in enumerate(studies) if number in held for text in study],
    )


@dataclass(frozen=True, slots=True)
class SpecialIds:
    pad: int  # [PAD]
    begin: int  # [CLS]
    end: int  # [SEP]
    mask: int  # [MASK]
    all: Tensor  # these and [UNK]
    continues: Tensor  # which ids continue a word, [V]


def special_ids(tokenizer: TextTokenizer) -> SpecialIds:
    return SpecialIds(
        pad=tokenizer.pad_token_id,
        begin=tokenizer.cls_token_id,
        end=tokenizer.sep_token_id,
        mask=tokenizer.mask_token_id,
        all=torch.tensor(tokenizer.all_special_ids),
        continues=torch.tensor(continues_word(tokenizer)),
    )


def epoch_batches(
    lengths: Sequence[int], batch_tokens: int, generator: torch.Generator
) -> list[list[int]]:
    """Divide an epoch into batches of similar length, in random order; indices of each batch.

    ``batch_tokens`` includes special tokens and padding.  The generator orders sentences of equal
    length, and the batches; every epoch has the same number of them.
    """
    shuffled = torch.randperm(len(lengths), generator=generator).tolist()
    order = sorted(shuffled, key=lengths.__getitem__)
    batches: list[list[int]] = []
    current: list[int] = []
    for index in order:
        # Sorted by length, so the newest sentence is the widest.
        if current and (len(current) + 1) * (lengths[index] + SPECIAL) > batch_tokens:
            batches.append(current)
            current = []
        current.append(index)
    if current:
        batches.append(current)
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def collate(sentences: Sequence[Pieces], special: SpecialIds) -> tuple[Tensor, Tensor, Tensor]:
    """Pad sentences to one length, with special tokens.

    Returns ids [B, T], where a sentence has a word piece [B, T], and where a word starts [B, T].
    The first piece always starts a word, even if the sentence was cut inside one.
    """
    width = max(map(len, sentences)) + SPECIAL
    ids = torch.full((len(sentences), width), special.pad, dtype=torch.long)
    eligible = torch.zeros(len(sentences), width, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        length = len(sentence)
        ids[row, 0], ids[row, length + 1] = special.begin, special.end
        ids[row, 1 : length + 1] = torch.tensor(sentence)
        eligible[row, 1 : length + 1] = True
    starts = eligible & ~special.continues[ids]
    starts[:, 1] = True
    return ids, eligible, starts


def cut_to_window(sentences: Sequence[Pieces], window: int) -> list[Pieces]:
    """Cut sentences longer than the window into pieces of it; nothing is dropped."""
    return [
        sentence[start : start + window]
        for sentence in sentences
        for start in range(0, len(sentence), window)
    ]


MASKED, RANDOM = 0.8, 0.1
"""Shares of the chosen words replaced by [MASK] and by random pieces; the rest stay."""

ROUNDING = 1e-3  # a share this little above a whole number of pieces means that number


def choose_words(
    word: Tensor, eligible: Tensor, *, share: float, generator: torch.Generator
) -> Tensor:
    """Choose whole words in random order until a share of the word pieces is reached.

    The word that reaches the share is the last one, even if it exceeds it: so long words in short
    sentences have a chance, and every sentence has a masked word.

    Args:
        word: The number of the word at each place, from 0 in each row, [B, T].
        eligible: Where the sentence has a word piece, [B, T]; at least one per row.
        share: Least share of a row's word pieces to choose.

    Returns whether each word is chosen, by its number, [B, T].

    Source: Cui et al. 2021, §3.1 (whole-word masking).  Its code skips a word that would exceed the
        share, and so never masks a long word in a short sentence.
    """
    pieces = torch.zeros(eligible.shape).scatter_add_(1, word, eligible.float())
    draw = torch.rand(eligible.shape, generator=generator).masked_fill(pieces == 0, 2.0)
    order = draw.argsort(dim=1)  # places without a word come last
    size = pieces.gather(1, order)
    before = size.cumsum(dim=1) - size
    taken = (before < share * pieces.sum(dim=1, keepdim=True) - ROUNDING) & (size > 0)
    taken[:, 0] = True
    return torch.zeros_like(taken).scatter_(1, order, taken)


def mask_words(
    input_ids: Tensor,
    eligible: Tensor,
    starts: Tensor,
    *,
    mask_id: int,
    vocabulary_size: int,
    share: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Choose words at random and mask all their pieces.

    Args:
        input_ids: Word pieces with special tokens and padding, [B, T], on the CPU.
        eligible: Where the sentence has a word piece, [B, T]; at least one per row.
        starts: Where a word starts, [B, T]; each row's first eligible place does.
        share: Least share of the word pieces to choose; each row has at least one chosen word.

    Returns:
        The input with chosen pieces masked, [B, T], and where they were chosen, [B, T].

    Source: Devlin et al. 2019, §3.1 (80 % masked, 10 % random, 10 % unchanged), decided once per
        word as in the authors' later whole-word release.
    """
    word = (starts.cumsum(dim=1) - 1).clamp(min=0)  # [B, T]
    words = choose_words(word, eligible, share=share, generator=generator)
    chosen = words.gather(1, word) & eligible
    way = torch.rand(input_ids.shape, generator=generator).gather(1, word)
    anything = torch.randint(vocabulary_size, input_ids.shape, generator=generator)
    masked = input_ids.masked_fill(chosen & (way < MASKED), mask_id)
    return torch.where(chosen & (way >= MASKED) & (way < MASKED + RANDOM), anything, masked), chosen
