"""Embeddings of sentences, remembered."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.evaluation import Prompts
from cxrtext.models import ImageTextModel

REMEMBERED = 20_000
"""Sentences; with 128 numbers each this is 10 MiB.  As many as a server's questions can hold at a
time, so that none is forgotten between its embedding and its use."""


class TextMemory:
    """Embeds sentences and keeps those used last; threads may share one.

    Args:
        model: The model.
        size: How many sentences to keep.
    """

    def __init__(self, model: ImageTextModel, size: int = REMEMBERED) -> None:
        self._model = model
        self._size = size
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def missing(self, sentences: Sequence[str]) -> list[str]:
        """Those sentences that have to be embedded, each once."""
        with self._lock:
            return [s for s in dict.fromkeys(sentences) if s not in self._known]

    def embed(self, sentences: Sequence[str]) -> Tensor:
        """Embed sentences, the unknown ones of them in one batch.

        Args:
            sentences: S of them, at least one; any may be there twice.

        Returns:
            [S, D], unit vectors.
        """
        found: dict[str, Tensor] = {}
        with self._lock:
            for sentence in dict.fromkeys(sentences):
                if sentence in self._known:
                    self._known.move_to_end(sentence)
                    found[sentence] = self._known[sentence]
        wanted = [s for s in dict.fromkeys(sentences) if s not in found]
        if wanted:
            # Each a copy: a row would keep the whole batch in memory.
            vectors = [row.clone() for row in self._model.embed_sentences(wanted)]
            found |= zip(wanted, vectors, strict=True)
            self._keep(wanted, vectors)
        return torch.stack([found[sentence] for sentence in sentences])

    def _keep(self, sentences: Sequence[str], vectors: Sequence[Tensor]) -> None:
        with self._lock:
            self._known.update(zip(sentences, vectors, strict=True))
            while len(self._known) > self._size:
                self._known.popitem(last=False)


def prompt_vectors(memory: TextMemory, prompts: Mapping[str, Prompts]) -> Tensor:
    """As :func:`cxrtext.evaluation.prompt_embeddings`, with phrases that may be known already.

    Returns:
        [F, 2, D], unit vectors; positive first.
    """
    sides = [side for entry in prompts.values() for side in (entry.positive, entry.negative)]
    vectors = memory.embed([phrase for side in sides for phrase in side])
    means = [part.mean(dim=0) for part in vectors.split([len(side) for side in sides])]
    return F.normalize(torch.stack(means), dim=-1).view(len(prompts), 2, -1)
