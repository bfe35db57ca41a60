"""The first question, asked before anybody waits for its answer."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from cxrtext.index import Query
from cxrtext.index.means import mean_region

if TYPE_CHECKING:
    from cxrtext.service.service import Service

SENTENCE = "The lungs are clear."

WORTH = 1.3
"""How much faster several threads have to be than one: the other cores have work of their own,
decoding images and answering."""

TIMES = 3
"""How often each is tried; the best counts."""


def warm_up(service: "Service") -> None:
    """Embed and score an image and a sentence, and search: the first time takes the longest.

    Libraries are loaded by it, and memory is taken.  On a CPU the thread that calls it computes
    with one thread from then on, where several make a small model hardly faster.
    """
    model = service.model
    side = model.spec.preprocessing.resize
    blank = [np.zeros((1, side, side), dtype=np.uint8)]
    regions = service.embed_squares(blank)[0][None]
    if model.device.type == "cpu":
        torch.set_num_threads(threads_for(lambda: service.embed_squares(blank)))
    texts = service.embed_sentences([SENTENCE])
    with torch.inference_mode():
        model.scores(regions, texts)
    if service.language_model is not None:
        service.score_text([SENTENCE])
    if service.has_index:
        service.archive.search(Query(texts=texts), 1)
        service.archive.search(Query(image=mean_region(regions.float()).cpu()[0]), 1)


def threads_for(work: Callable[[], object]) -> int:
    """Threads that some work is worth: all that there are now, or one.

    Args:
        work: Called a few times with each.
    """
    several = torch.get_num_threads()
    if several == 1:
        return 1
    try:
        slow = _seconds(work, 1)
        quick = _seconds(work, several)
    finally:
        torch.set_num_threads(several)
    return several if slow > WORTH * quick else 1


def _seconds(work: Callable[[], object], threads: int) -> float:
    torch.set_num_threads(threads)
    took = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return min(took)
