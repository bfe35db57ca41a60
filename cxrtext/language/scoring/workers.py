"""Scoring in this process, or in several at once."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.errors import ConfigError, WorkError
from cxrtext.images.sandbox_worker import end_with
from cxrtext.language.scoring.score import Pieces
from cxrtext.language.scoring.scorer import Scorer, open_model
from cxrtext.language.scoring.settings import Precision, Variant
from cxrtext.models.masked_lm import MaskedLanguageModel

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # glibc's names for what may be set (malloc.h)


def keep_memory() -> bool:
    """Let this process reuse the memory of large tensors instead of giving it back each time.

    By default glibc takes every large block from the system anew and returns it; the pages are
    then zeroed and mapped again at each product, which was measured to cost a fifth of float32
    scoring.  The process keeps its peak of memory until it ends, so this is for processes that
    only score: the command line and its workers call it, the library's functions do not.

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


Group = Sequence[tuple[bytes, Pieces]]  # sentences of one length: digest and word pieces of each
Scores = dict[bytes, NDArray[np.float32]]  # word pieces' log-likelihoods by digest of the sentence
AHEAD = 2  # groups that wait for each worker


@dataclass(frozen=True, slots=True)
class ScorerPlan:
    """How a worker makes its scorer."""

    model: str | Path
    precision: Precision
    variant: Variant
    batch_tokens: int
    threads: int


_scorer: Scorer | None = None


def _begin(plan: ScorerPlan, parent: int) -> None:
    global _scorer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    keep_memory()
    torch.set_num_threads(plan.threads)
    language = open_model(plan.model, "cpu", offline=True)  # the parent has fetched it
    _scorer = Scorer(language, plan.precision, plan.variant, plan.batch_tokens)


def scores_of(scorer: Scorer, group: Group) -> Scores:
    """Score a group, by digest of the sentence."""
    values = scorer.score([pieces for _, pieces in group])
    return {digest: value for (digest, _), value in zip(group, values, strict=True)}


def _work(group: Group) -> Scores:
    assert _scorer is not None  # noqa: S101 - set when the worker began
    return scores_of(_scorer, group)


def score_here(scorer: Scorer, groups: Iterable[Group]) -> Iterator[Scores]:
    """Score group after group in this process."""
    return (scores_of(scorer, group) for group in groups)


def model_for_workers(
    model: str | Path | MaskedLanguageModel, language: MaskedLanguageModel
) -> str | Path:
    """Where workers load the model (ConfigError where it is loaded, or not on the CPU)."""
    if isinstance(model, MaskedLanguageModel) or language.model.device.type != "cpu":
        raise ConfigError("several workers need a model's folder or hub id, and the CPU")
    return model


def score_in_workers(plan: ScorerPlan, workers: int, groups: Iterable[Group]) -> Iterator[Scores]:
    """Score groups in processes of their own, in order, read as far ahead as the workers need.

    Raises:
        WorkError: A worker died, most likely for want of memory.
    """
    pool = ProcessPoolExecutor(
        workers,
        multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(plan, os.getpid()),
    )
    waiting: deque[Future[Scores]] = deque()
    try:
        for group in groups:
            waiting.append(pool.submit(_work, group))
            if len(waiting) >= workers * AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise WorkError(
            f"a worker ended before its time, perhaps for want of memory: each of {workers} holds "
            "the model; take fewer, and start again to go on"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
