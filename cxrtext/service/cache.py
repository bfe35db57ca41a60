"""Caches between questions: embeddings of sentences, and other results."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.evaluation import Prompts
from cxrtext.models import ImageTextModel
from cxrtext.service.limits import check_sentence

REMEMBERED = 20_000
"""Sentences; with 128 numbers each this is 10 MiB.  A server's questions cannot use more at a time,
so none is forgotten between its embedding and its use."""

TURN_MULTIPLICATIONS = 10**9
"""Of a language model between two pauses: a few hundredths of a second."""

TURN_TOKENS = 128, 4096
"""Fewest and most tokens for a language model at once; fewer are not faster."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """The ``size`` values that were used last; threads may share one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._known: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def missing(self, keys: Iterable[K]) -> list[K]:
        """The keys without a value, each once."""
        with self._lock:
            return [key for key in dict.fromkeys(keys) if key not in self._known]

    def use(self, keys: Iterable[K]) -> dict[K, V]:
        """The known values by their keys."""
        with self._lock:
            values = {key: self._known[key] for key in keys if key in self._known}
            for key in values:
                self._known.move_to_end(key)
            return values

    def keep(self, values: Mapping[K, V]) -> None:
        """Remember values, and forget those unused the longest."""
        with self._lock:
            self._known.update(values)
            while len(self._known) > self._size:
                self._known.popitem(last=False)


class TextMemory(Remembered[str, Tensor]):
    """Embeds sentences, and remembers those used last."""

    def __init__(self, model: ImageTextModel, size: int = REMEMBERED) -> None:
        super().__init__(size)
        self._model = model

    def embed(self, sentences: Sequence[str]) -> Tensor:
        """Unit vectors [S, D] of at least one sentence; unknown ones are embedded in one batch."""
        vectors = self.use(sentences)
        unknown = [s for s in dict.fromkeys(sentences) if s not in vectors]
        if unknown:
            # Copies: a row would keep the whole batch in memory.
            rows = [row.clone() for row in self._model.embed_sentences(unknown)]
            made = dict(zip(unknown, rows, strict=True))
            vectors |= made
            self.keep(made)
        return torch.stack([vectors[sentence] for sentence in sentences])

    @property
    def turn(self) -> int:
        """How many tokens of sentences to embed between two pauses."""
        text = self._model.spec.text
        wide, inner = int(text["hidden_size"]), int(text["intermediate_size"])
        multiplications = int(text["num_hidden_layers"]) * (4 * wide**2 + 2 * wide * inner)
        least, most = TURN_TOKENS
        return max(least, min(most, TURN_MULTIPLICATIONS // max(1, multiplications)))

    def tokens(self, sentences: Sequence[str]) -> int:
        """The most tokens that sentences can have, without using a tokenizer."""
        longest = self._model.spec.max_tokens
        return sum(min(longest, len(sentence) + 2) for sentence in sentences)

    def turns(self, sentences: Sequence[str]) -> list[list[str]]:
        """The unknown sentences in parts, each to be embedded in one turn."""
        missing = self.missing(sentences)
        encoded = self._model.tokenizer.backend_tokenizer.encode_batch(missing) if missing else []
        longest = self._model.spec.max_tokens
        lengths = [min(longest, sum(encoding.attention_mask)) for encoding in encoded]
        turns: list[list[str]] = []
        for at in sorted(range(len(missing)), key=lengths.__getitem__):
            if not turns or lengths[at] * (len(turns[-1]) + 1) > self.turn:
                turns.append([])
            turns[-1].append(missing[at])
        return turns

    def has(self, sentences: Sequence[str]) -> bool:
        """Whether all these sentences are remembered (InputError)."""
        for sentence in sentences:
            check_sentence(sentence)
        return not self.missing(sentences)


def prompt_vectors(memory: TextMemory, prompts: Mapping[str, Prompts]) -> Tensor:
    """Unit vectors [F, 2, D] of prompts, positive first, with known phrases from memory.

    The same as :func:`cxrtext.evaluation.prompt_embeddings`.
    """
    sides = [side for entry in prompts.values() for side in (entry.positive, entry.negative)]
    vectors = memory.embed([phrase for side in sides for phrase in side])
    means = [part.mean(dim=0) for part in vectors.split([len(side) for side in sides])]
    return F.normalize(torch.stack(means), dim=-1).view(len(prompts), 2, -1)
