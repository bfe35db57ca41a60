"""The data of training steps: images with sentences of their studies, one batch per step."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cxrtext.images.augment import Views, draw_views
from cxrtext.language.pretraining.batches import special_ids
from cxrtext.models import ImageTextModel
from cxrtext.records import ImageRecord, Rejects, Sentence
from cxrtext.training.data.batches import (
    GROUP,
    Batch,
    Pairs,
    Tokens,
    group_by_length,
    mask_tokens,
    span,
    take,
)
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.data.locked_features import LockedFeatures, StoredFeatures
from cxrtext.training.loop.optimization import TrainingArguments, seed_of

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Examples:
    """Images of one split and the tokenized sentences of their studies."""

    # [n, R, R], 8-bit gray, possibly with images of other examples
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
    rows: Rows  # the row of pixels for each example
    sentences: list[Rows]  # for each example, the indices of its study's sentences
    # the word pieces of each sentence, with special tokens
    tokens: list[list[int]]
    eta: np.ndarray[tuple[int], np.dtype[np.float32]]  # [sentences], class probabilities
    pad_id: int  # the word piece of padding
    # [sentences], weights above 0 for drawing sentences; None for equal weights
    weights: np.ndarray[tuple[int], np.dtype[np.float32]] | None = None
    # the manifest's row for each example
    records: Sequence[ImageRecord] = field(default=(), repr=False)
    # the sentence for each of tokens
    texts: Sequence[Sentence] = field(default=(), repr=False)
    # [rows, F], int8, findings of the second task: 1, 0, or -1 unknown
    findings: np.ndarray[tuple[int, ...], np.dtype[np.int8]] | None = None
    asked: Sequence[str] = ()  # [F], the names of these findings
    prompts: Sequence[int] = ()  # [2 F], indices of their prompts in tokens, positive and negative
    # features from the locked image encoder or a backbone; None if the encoder runs
    features: LockedFeatures | StoredFeatures | None = field(default=None, repr=False)
    # states of each of tokens from the locked text encoder; None if it runs
    states: LockedFeatures | None = field(default=None, repr=False)
    ask: Ask = field(default=lambda _: {}, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(
        self,
        examples: Rows,
        generator: np.random.Generator,
        sentences: int = 1,
        share: tuple[int, int] = (0, 1),
    ) -> Batch:
        """Make a batch of examples [B] with random sentences, so many of each.

        Pixels and word pieces are read for ``share``: this part of so many parts.
        """
        drawn = [self.draw(int(i), generator, sentences) for i in examples]
        chosen = [int(own[0]) for own in drawn] + [int(i) for own in drawn for i in own[1:]]
        image_of = [*range(len(drawn)), *(b for b, own in enumerate(drawn) for _ in own[1:])]
        images = torch.tensor(image_of)
        asked = [*chosen, *self.prompts]
        distinct = sorted({tuple(self.tokens[i]) for i in asked}, key=lambda t: (len(t), t))
        place = {pieces: number for number, pieces in enumerate(distinct)}
        own = span(len(examples), *share)
        pairs = Pairs(
            image_of=images,
            eta=torch.from_numpy(self.eta[chosen]),
            known=self.ask(self._drawn(examples, chosen, images)),
            findings=None if self.findings is None else torch.from_numpy(self.findings[examples]),
        )
        return Batch(
            images=self._images(examples[own]),
            parts=(self._tokens(distinct[span(len(distinct), *share)], asked),),
            text_of=torch.tensor([place[tuple(self.tokens[i])] for i in asked]),
            pairs=pairs,
            distinct=len(distinct),
        )

    def _drawn(self, examples: Rows, chosen: Sequence[int], image_of: Tensor) -> Drawn:
        if not self.records or not self.texts:
            return Drawn(image_of, (), (), ())
        return Drawn(
            image_of,
            [self.records[i] for i in examples.tolist()],
            [self.texts[i] for i in chosen],
            [
                [self.texts[k].sentence for k in self.sentences[i].tolist()]
                for i in examples.tolist()
            ],
        )

    def _images(self, examples: Rows) -> Tensor:
        if self.features is not None:
            return torch.from_numpy(self.features.of(examples))
        return torch.from_numpy(np.asarray(self.pixels[self.rows[examples]])[:, None])

    def _tokens(self, distinct: list[tuple[int, ...]], asked: list[int]) -> tuple[Tokens, ...]:
        groups = group_by_length(distinct, self.pad_id)
        if self.states is None:
            return groups
        one_of = {tuple(self.tokens[i]): i for i in asked}
        states = torch.from_numpy(self.states.of([one_of[pieces] for pieces in distinct]))
        return tuple(
            replace(group, states=part)
            for group, part in zip(groups, states.split(GROUP), strict=True)
        )

    def unlocked(self) -> "Examples":
        """The same with pixels and word pieces instead of features."""
        return replace(self, features=None, states=None)

    def draw(self, example: int, generator: np.random.Generator, sentences: int) -> Rows:
        """Some of an example's sentences, drawn without repetition by ``weights``."""
        own = self.sentences[example]
        if self.weights is None:
            return generator.permutation(own)[:sentences]
        # Source: Efraimidis and Spirakis 2006, A-ES: the largest u^(1/w).
        keys = -generator.exponential(size=len(own)) / self.weights[own]
        return own[np.argsort(-keys, kind="stable")][:sentences]


def batch_rows(count: int, size: int, seed: int, step: int) -> Rows:
    """The examples of a step, [size]: each example once per epoch, in another order every epoch.

    A pure function of its arguments, so a resumed run sees the same examples; the last, incomplete
    batch of an epoch is left out.
    """
    epoch, place = divmod(step, count // size)
    return _order(count, seed, epoch)[place * size : (place + 1) * size]


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Rows:
    return np.random.default_rng([seed, 0, epoch]).permutation(count)


class Loader:
    """Makes the batches of steps; ``share`` is this process's part and the number of parts."""

    def __init__(
        self,
        model: ImageTextModel,
        examples: Examples,
        arguments: TrainingArguments,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self._examples, self._arguments, self._share = examples, arguments, share
        self._pinned = model.device.type == "cuda"
        self._special = special_ids(model.tokenizer) if arguments.mlm_weight else None
        self.resize, self.crop = model.spec.preprocessing.resize, model.spec.preprocessing.crop

    def make(self, step: int) -> tuple[Batch, Views]:
        """The batch of a step, on the CPU, and the views of its images."""
        arguments, seed = self._arguments, self._arguments.seed
        rows = batch_rows(len(self._examples), arguments.batch, seed, step)
        draws = np.random.default_rng([seed, 2, step])
        examples = self._examples if arguments.locked(step) else self._examples.unlocked()
        batch = examples.batch(rows, draws, arguments.sentences, self._share)
        generator = torch.Generator().manual_seed(seed_of(seed, 3, step))
        views = draw_views(
            len(rows),
            self.resize,
            self.crop,
            generator,
            brightness=arguments.brightness,
            contrast=arguments.contrast,
        )
        (tokens,) = batch.parts
        if self._special is not None:
            generator.manual_seed(seed_of(seed, 6, step, self._share[0]))
            tokens = mask_tokens(tokens, self._special, generator)
        own, count = sum(len(group.input_ids) for group in tokens), arguments.accumulate
        parts = [take(tokens, span(own, k, count)) for k in range(count)]
        batch = replace(batch, parts=tuple(parts))
        if self._pinned:
            batch = batch.map(torch.Tensor.pin_memory)
        return batch, views[span(len(rows), *self._share)]


Looked = tuple[Rows, dict[str, Any]]
"""Which images can be read, and the fields of :class:`Examples` for them."""
ReadImages = Callable[[Sequence[ImageRecord], Rejects], Looked]
"""Reads images, and rejects those that cannot be read."""


def word_pieces(model: ImageTextModel, texts: list[str]) -> list[list[int]]:
    """The word pieces of sentences, with special tokens."""
    if not texts:
        return []
    encoded = model.tokenizer(texts, truncation=True, max_length=model.spec.max_tokens)
    return list(encoded["input_ids"])


def collect(
    records: Sequence[ImageRecord],
    sentences: Sequence[Sentence],
    look: ReadImages,
    model: ImageTextModel,
    rejects: Rejects,
) -> Examples:
    """Join the images of a split with the sentences of their studies.

    Images without a sentence and sentences of other studies are left out.
    """
    by_study: dict[str, list[int]] = defaultdict(list)
    studies = {record.study_id for record in records}
    used = [sentence for sentence in sentences if sentence.study_id in studies]
    for i, sentence in enumerate(used):
        by_study[sentence.study_id].append(i)
    with_text = [record for record in records if record.study_id in by_study]
    usable, images = look(with_text, rejects)
    distinct = list(dict.fromkeys(sentence.sentence for sentence in used))
    pieces = dict(zip(distinct, word_pieces(model, distinct), strict=True))
    return Examples(
        **images,
        sentences=[np.asarray(by_study[with_text[row].study_id]) for row in usable],
        tokens=[pieces[sentence.sentence] for sentence in used],
        eta=np.asarray([sentence.eta for sentence in used], dtype=np.float32),
        pad_id=int(model.tokenizer.pad_token_id),
        records=[with_text[row] for row in usable],
        texts=used,
    )
