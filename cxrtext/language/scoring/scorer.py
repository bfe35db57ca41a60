"""Log-likelihoods of the word pieces of sentences, under a bounded number of tokens at a time."""

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import BertForMaskedLM

from cxrtext.errors import CheckpointError, ConfigError
from cxrtext.language.scoring.masked_copies import SpecialIds, masked_copies
from cxrtext.language.scoring.network import MaskedNetwork, make_network
from cxrtext.language.scoring.quantized import make_quantized_network
from cxrtext.language.scoring.settings import Precision, Variant, check_precision, check_variant
from cxrtext.models.masked_lm import MaskedLanguageModel, load_masked_language_model
from cxrtext.text.tokenizer import continues_word

SPECIAL = 2  # special tokens around a sentence: [CLS] and [SEP]
MAX_GROUP = 512  # most sentences in a group

Item = TypeVar("Item")


def room(length: int, window: int, batch_tokens: int) -> int:
    """How many sentences of a length, in word pieces, make a group under a budget of tokens.

    A sentence of n word pieces takes n copies of n + 2 tokens, or of ``window`` + 2; one that
    exceeds the budget is a group alone.
    """
    cost = length * (min(length, window) + SPECIAL)
    return min(MAX_GROUP, max(1, batch_tokens // cost))


def groups_of(
    items: Iterable[Item], length: Callable[[Item], int], window: int, batch_tokens: int
) -> Iterator[list[Item]]:
    """Divide sentences in order of length into groups of one length each.

    The groups depend on the sentences and their order, shortest first, alone, so that a run that
    was killed and starts again makes the same groups and gets the same numbers.
    """
    group: list[Item] = []
    for item in items:
        size = length(item)
        if group and (length(group[0]) != size or len(group) >= room(size, window, batch_tokens)):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def plan_groups(lengths: Sequence[int], window: int, batch_tokens: int) -> list[list[int]]:
    """Divide sentences into groups of one length each; indices of each group, shortest first."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return list(groups_of(order, lengths.__getitem__, window, batch_tokens))


def ranges(total: int, size: int) -> Iterator[slice]:
    """Cut ``range(total)`` into slices of at most ``size``."""
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


def build_network(
    model: BertForMaskedLM, special: SpecialIds, precision: Precision
) -> MaskedNetwork:
    """Arrange a model for scoring (ConfigError for a precision that is not to be had)."""
    check_precision(precision)
    if precision == "float16" and model.device.type == "cpu":
        raise ConfigError("float16 is for GPUs; on a CPU take bfloat16 or int8")
    if precision == "int8":
        return make_quantized_network(model, special)
    return make_network(model, getattr(torch, precision))


ENGINE = 2  # version of the arithmetic: scores of another one are not taken from a cache
BATCH_TOKENS_CPU, BATCH_TOKENS_CUDA = 4096, 65_536  # default tokens in one forward pass


TRIM_THRESHOLD, MMAP_MAX = -1, -4  # glibc's names for what may be set (malloc.h)


def keep_memory() -> bool:
    """Let this process reuse the memory of large tensors instead of giving it back each time.

    By default glibc takes every large block from the system anew and returns it; the pages are
    then zeroed and mapped again at each product, which was measured to cost a fifth of float32
    scoring.  The process keeps its peak of memory until it ends, so this is for processes that
    only score: the command line and the workers of a job call it, the library's functions do not.

    Returns:
        Whether it was done; other systems than Linux with glibc are left as they are.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device asked for; by default the GPU where there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def open_model(
    model: str | Path | MaskedLanguageModel,
    device: str | torch.device | None = None,
    *,
    offline: bool = False,
) -> MaskedLanguageModel:
    """Return a model that is loaded already as it is, or load it; offline, never from the hub."""
    if isinstance(model, MaskedLanguageModel):
        if device is not None:
            nn.Module.to(model.model, torch.device(device))
        return model
    return load_masked_language_model(model, device=choose_device(device), offline=offline)


class Scorer:
    """A language model ready to score (ConfigError for a variant or precision not to be had)."""

    def __init__(
        self,
        language: MaskedLanguageModel,
        precision: Precision = "float32",
        variant: Variant = "original",
        batch_tokens: int | None = None,
    ) -> None:
        check_variant(variant)
        if batch_tokens is not None and batch_tokens < 1:
            raise ConfigError(f"batch_tokens is {batch_tokens}; it must be at least 1")
        self.language = language
        self.precision, self.variant = precision, variant
        on_gpu = language.model.device.type == "cuda"
        self.batch_tokens = batch_tokens or (BATCH_TOKENS_CUDA if on_gpu else BATCH_TOKENS_CPU)
        tokenizer = language.tokenizer
        self._special = SpecialIds(
            tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id
        )
        self._network = build_network(language.model, self._special, precision)
        self._continues = torch.tensor(continues_word(tokenizer)).to(language.model.device)

    @property
    def identity(self) -> str:
        """What a score depends on beside the sentence."""
        return f"{self.language.fingerprint} {self.precision} {self.variant} engine {ENGINE}"

    def score(self, group: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Score sentences of one positive length, given as word pieces without special tokens.

        Returns:
            ``log P(w_t | the rest)`` of every word piece of each sentence, in nats, float32 [n].

        Source: Salazar et al. 2020, eq. 2; Kauf and Ivanova 2023.
        """
        ids = torch.tensor(group, dtype=torch.long, device=self.language.model.device)
        window = self.language.window
        width = min(ids.shape[1], window) + SPECIAL
        continues = self._continues[ids] if self.variant == "within-word-l2r" else None
        parts, mask = [], self._special.mask
        for rows in ranges(ids.numel(), max(1, self.batch_tokens // width)):
            copies = masked_copies(
                ids, range(rows.start, rows.stop), window, self._special, continues
            )
            parts.append(self._network.log_probabilities(copies, mask))
        values = torch.cat(parts).clamp(max=0.0).reshape(ids.shape).cpu()
        if not bool(values.isfinite().all()):
            raise CheckpointError(
                f"model '{self.language.name}' gives likelihoods that are no finite numbers in "
                f"{self.precision}; its weights are damaged, or need float32"
            )
        return list(values.numpy())
