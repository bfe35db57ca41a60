"""What a training step reads: images with the sentences of their studies."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.images import Preprocessing
from cxrtext.records import ImageRecord, Rejects, Sentence
from cxrtext.training.cache import decode_images

GROUP = 64
"""Sentences that are padded to one length; padding them all to the longest costs several times
the arithmetic."""

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Some sentences of similar length: ``input_ids`` and ``attention_mask``, each [n, T]."""

    input_ids: Tensor
    attention_mask: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """B images with S sentences of their studies.

    Args:
        images: [B, 1, R, R], 8-bit grey, before the crop.
        tokens: The distinct sentences, shortest first, in groups; U in all.
        text_of: [S], the distinct sentence that each sentence is.
        image_of: [S], the image that each sentence belongs to; the first B are 0 to B − 1.
        eta: [S], class probability of each sentence.
    """

    images: Tensor
    tokens: list[Tokens]
    text_of: Tensor
    image_of: Tensor
    eta: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        return Batch(
            self.images.to(device, non_blocking=True),
            [
                Tokens(group.input_ids.to(device), group.attention_mask.to(device))
                for group in self.tokens
            ],
            self.text_of.to(device),
            self.image_of.to(device),
            self.eta.to(device),
        )


def group_by_length(pieces: Sequence[Sequence[int]], pad_id: int) -> list[Tokens]:
    """Pad sentences that are sorted by length, :data:`GROUP` at a time."""
    groups = []
    for start in range(0, len(pieces), GROUP):
        part = pieces[start : start + GROUP]
        ids = torch.full((len(part), len(part[-1])), pad_id)
        mask = torch.zeros_like(ids)
        for row, sentence in enumerate(part):
            ids[row, : len(sentence)] = torch.tensor(sentence)
            mask[row, : len(sentence)] = 1
        groups.append(Tokens(ids, mask))
    return groups


@dataclass(frozen=True, slots=True)
class Examples:
    """Images of one split and the tokenised sentences of their studies.

    Args:
        pixels: [n, R, R], 8-bit grey; n counts unusable images as well.
        rows: The usable rows of ``pixels`` that have a sentence.
        sentences: For each of ``rows``, the indices of its study's sentences.
        tokens: The word pieces of each sentence, special tokens included.
        eta: [sentences], class probabilities.
        pad_id: The word piece of padding.
    """

    pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
    rows: Rows
    sentences: list[Rows]
    tokens: list[list[int]]
    eta: np.ndarray[tuple[int], np.dtype[np.float32]]
    pad_id: int

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, examples: Rows, generator: np.random.Generator, sentences: int = 1) -> Batch:
        """Put examples together, with sentences of each drawn at random.

        Args:
            examples: [B], which examples.
            generator: Source of the draws.
            sentences: Sentences an image, drawn without repetition; all where it has fewer.
        """
        drawn = [generator.permutation(self.sentences[i])[:sentences] for i in examples]
        chosen = [int(own[0]) for own in drawn] + [int(i) for own in drawn for i in own[1:]]
        image_of = [*range(len(drawn)), *(b for b, own in enumerate(drawn) for _ in own[1:])]
        distinct = sorted({tuple(self.tokens[i]) for i in chosen}, key=lambda t: (len(t), t))
        place = {pieces: number for number, pieces in enumerate(distinct)}
        return Batch(
            images=torch.from_numpy(np.asarray(self.pixels[self.rows[examples]])[:, None]),
            tokens=group_by_length(distinct, self.pad_id),
            text_of=torch.tensor([place[tuple(self.tokens[i])] for i in chosen]),
            image_of=torch.tensor(image_of),
            eta=torch.from_numpy(self.eta[chosen]),
        )


def batch_rows(count: int, size: int, seed: int, step: int) -> Rows:
    """The examples of one step: every example once an epoch, in an order of the epoch's own.

    A pure function of its arguments, so that a resumed run sees what the first would have seen.

    Args:
        count: Number of examples.
        size: Examples a step, at most ``count``; the last incomplete batch is left out.
        seed: The run's seed.
        step: The step, from 0.

    Returns:
        [size], without repetition.
    """
    epoch, place = divmod(step, count // size)
    order = np.random.default_rng([seed, 0, epoch]).permutation(count)
    return order[place * size : (place + 1) * size]


def collect(
    records: Sequence[ImageRecord],
    sentences: Sequence[Sentence],
    cache: Path,
    preprocessing: Preprocessing,
    tokenize: Callable[[list[str]], list[list[int]]],
    pad_id: int,
    rejects: Rejects,
    *,
    threads: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Examples:
    """Decode the images of a split and join them with the sentences of their studies.

    Args:
        records: The images of one split.
        sentences: Scored sentences; those of other studies are passed over.
        cache: Folder of the decoded images.
        preprocessing: Gives the size of the decoded images.
        tokenize: Word pieces of sentences, special tokens included.
        pad_id: The word piece of padding.
        rejects: Takes the images that cannot be decoded.
        threads: Images decoded at the same time.
        progress: Called with (done, total) while decoding.

    Returns:
        The examples; images without a sentence are left out.
    """
    by_study: dict[str, list[int]] = defaultdict(list)
    studies = {record.study_id for record in records}
    kept = [sentence for sentence in sentences if sentence.study_id in studies]
    for i, sentence in enumerate(kept):
        by_study[sentence.study_id].append(i)
    with_text = [record for record in records if record.study_id in by_study]
    decoded = decode_images(
        with_text, cache, preprocessing, rejects, threads=threads, progress=progress
    )
    rows = np.flatnonzero(decoded.usable)
    distinct = list(dict.fromkeys(sentence.sentence for sentence in kept))
    pieces = dict(zip(distinct, tokenize(distinct) if distinct else [], strict=True))
    return Examples(
        pixels=decoded.pixels,
        rows=rows,
        sentences=[np.asarray(by_study[with_text[row].study_id]) for row in rows],
        tokens=[pieces[sentence.sentence] for sentence in kept],
        eta=np.asarray([sentence.eta for sentence in kept], dtype=np.float32),
        pad_id=pad_id,
    )


def require_enough(examples: Examples, manifest: Path, sentences: Path) -> None:
    """Refuse a training split of fewer than two images with text.

    Raises:
        DataError: Saying which two files do not meet.
    """
    if len(examples) < 2:
        raise DataError(
            f"{manifest}: {len(examples)} training image(s) have a sentence in {sentences}; check "
            "that both tables use the same study_id and that the manifest has a split 'train'"
        )
