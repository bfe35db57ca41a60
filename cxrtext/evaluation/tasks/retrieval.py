"""Retrieval between the images of a cohort and the sentences of their reports."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.evaluation.cohort import IMAGES_AT_ONCE, Cohort
from cxrtext.evaluation.retrieval import CUTOFFS, positive_ranks, rank_metrics
from cxrtext.evaluation.settings import Settings
from cxrtext.evaluation.tasks.resampling import Resampled, draw, intervals_of
from cxrtext.evaluation.tasks.wording import Answers, Wording, gather_wording, turned
from cxrtext.evaluation.weighted import weighted_mean, weighted_median, weighted_recall
from cxrtext.models import ImageTextModel
from cxrtext.records import Sentence

ON_DISK = 1 << 27
"""Scores from which on their matrix lies in a temporary file."""

ROWS_AT_ONCE = 512

Scores = NDArray[np.float32]
Ranks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Retrieval between images and sentences.

    Args:
        metrics: By direction.
        intervals: By direction and measure.
        wording: The sentences.
        ranks: By direction.
        resampled: "R@10" of either direction and the like.
    """

    metrics: dict[str, dict[str, float]]
    intervals: dict[str, dict[str, tuple[float, float]]]
    wording: Wording
    ranks: dict[str, Ranks]
    resampled: dict[str, Resampled] = field(default_factory=dict)


@torch.inference_mode()
def score_matrix(model: ImageTextModel, cohort: Cohort, texts: Sequence[str]) -> Scores:
    """Scores [S, B] in float32; where they are many, in a temporary file mapped into memory."""
    shape = len(texts), len(cohort.records)
    if shape[0] * shape[1] < ON_DISK:
        scores = np.empty(shape, dtype=np.float32)
    else:
        with TemporaryFile() as handle:  # the map keeps the file that no longer has a name
            scores = np.memmap(handle, dtype=np.float32, mode="w+", shape=shape)
    vectors = model.embed_sentences(texts)
    for number, part in enumerate(cohort.chunks(model)):
        start = number * IMAGES_AT_ONCE
        for begin in range(0, len(texts), 8 * ROWS_AT_ONCE):
            rows = slice(begin, begin + 8 * ROWS_AT_ONCE)
            scores[rows, start : start + len(part)] = model.scores(part, vectors[rows]).cpu()
    return scores


def _mask(answers: Answers, rows: Sequence[int], columns: int) -> NDArray[np.bool_]:
    mask = np.zeros((len(rows), columns), dtype=np.bool_)
    for place, row in enumerate(rows):
        mask[place, answers[row]] = True
    return mask


def _ranks(
    block: Callable[[Sequence[int]], Scores],
    queries: Sequence[int],
    columns: int,
    right: Answers,
    apart: Answers | None,
) -> Ranks:
    parts = []
    for rows in _blocks(queries):
        left_out = None if apart is None else _mask(apart, rows, columns)
        parts.append(positive_ranks(block(rows), _mask(right, rows, columns), left_out))
    return np.concatenate(parts)


def _blocks(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


def measure_retrieval(
    model: ImageTextModel, cohort: Cohort, sentences: Sequence[Sentence], settings: Settings
) -> Retrieved:
    """Measure retrieval in both directions; equal sentences are one, right for every study.

    Args:
        model: The model.
        cohort: The images.
        sentences: Of their reports; at least one.
        settings: How.
    """
    wording = gather_wording(cohort, sentences)
    scores = score_matrix(model, cohort, wording.texts)
    right, spoken = turned(wording.images), sorted(turned(wording.images))
    apart = (wording.related, turned(wording.related)) if settings.exclude_same_patient else None
    S, B = scores.shape
    ranks = {
        "sentence to image": _ranks(
            lambda rows: scores[rows], range(S), B, wording.images, apart and apart[0]
        ),
        "image to sentence": _ranks(
            lambda rows: scores[:, rows].T, spoken, S, right, apart and apart[1]
        ),
    }
    of_queries = {
        "sentence to image": (wording.patients, B),
        "image to sentence": ([cohort.patients[row] for row in spoken], S),
    }
    metrics, intervals = {}, {}
    resampled: dict[str, Resampled] = {}
    for direction, (patients, candidates) in of_queries.items():
        metrics[direction], values = _direction(ranks[direction], patients, candidates, settings)
        intervals[direction] = intervals_of(values)
        # The patients of the queries alone, so that no sentence is kept for a comparison.
        keys = (*patients, *cohort.studies)
        resampled |= {
            f"{direction} {name}": Resampled(metrics[direction][name], values[name], keys)
            for name in ("R@10", "MedR", "MRR")
            if name in values
        }
    return Retrieved(metrics, intervals, wording, ranks, resampled)


def _direction(
    ranks: Ranks, patients: Sequence[str], candidates: int, settings: Settings
) -> tuple[dict[str, float], dict[str, Any]]:
    cutoffs = [k for k in CUTOFFS if k < candidates]
    counts = draw(patients, settings.resamples, (settings.seed, 4))
    values = {f"R@{k}": weighted_recall(ranks, k, counts) for k in cutoffs}
    values["MedR"] = weighted_median(ranks, counts)
    values["MRR"] = weighted_mean(1 / ranks, counts)
    metrics = rank_metrics(ranks, cutoffs)
    return {**metrics, "queries": float(len(ranks)), "candidates": float(candidates)}, values
