"""Scoring in this process, or in several at once."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.errors import ConfigError, WorkError
from cxrtext.language.scoring.allocator import keep_memory
from cxrtext.language.scoring.options import Precision, Variant
from cxrtext.language.scoring.scorer import Scorer, open_model
from cxrtext.language.scoring.work import WorkText
from cxrtext.models.masked_language_model import MaskedLanguageModel

Scores = dict[int, NDArray[np.float32]]
"""Word pieces' log-likelihoods by number of the text."""

AHEAD = 2
"""Groups that wait for each worker."""


@dataclass(frozen=True, slots=True)
class ScorerPlan:
    """How a worker makes its scorer.

    Args:
        model: The model's folder or hub id.
        precision: Arithmetic of the network.
        variant: What is masked.
        batch_tokens: Most tokens in one forward pass.
        threads: Threads of one worker.
    """

    model: str | Path
    precision: Precision
    variant: Variant
    batch_tokens: int
    threads: int


_scorer: Scorer | None = None


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _begin(plan: ScorerPlan) -> None:
    global _scorer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    _end_with_parent()
    keep_memory()
    torch.set_num_threads(plan.threads)
    language = open_model(plan.model, "cpu", offline=True)  # the parent has fetched it
    _scorer = Scorer(language, plan.precision, plan.variant, plan.batch_tokens)


def _work(group: Sequence[tuple[int, tuple[int, ...]]]) -> Scores:
    assert _scorer is not None  # noqa: S101 - set when the worker began
    values = _scorer.score([pieces for _, pieces in group])
    return {number: value for (number, _), value in zip(group, values, strict=True)}


def score_here(scorer: Scorer, groups: Iterable[Sequence[WorkText]]) -> Iterator[Scores]:
    """Score group after group in this process."""
    for group in groups:
        values = scorer.score([text.pieces for text in group])
        yield {text.id: value for text, value in zip(group, values, strict=True)}


def model_for_workers(
    model: str | Path | MaskedLanguageModel, language: MaskedLanguageModel
) -> str | Path:
    """Return where workers load the model from.

    Args:
        model: What the model was asked for by.
        language: The model, loaded.

    Raises:
        ConfigError: It was loaded by the caller, or is not on the CPU.
    """
    if isinstance(model, MaskedLanguageModel) or language.model.device.type != "cpu":
        raise ConfigError("several workers need a model's folder or hub id, and the CPU")
    return model


def score_in_workers(
    plan: ScorerPlan, workers: int, groups: Iterable[Sequence[WorkText]]
) -> Iterator[Scores]:
    """Score groups in processes of their own; each loads the model.

    Args:
        plan: How they score.
        workers: How many.
        groups: Read as far ahead as the workers need.

    Yields:
        The scores of each group, in the order of the groups.

    Raises:
        WorkError: A worker died, most likely for want of memory.
    """
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(plan,)
    )
    waiting: deque[Future[Scores]] = deque()
    try:
        for group in groups:
            waiting.append(pool.submit(_work, [(text.id, text.pieces) for text in group]))
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
