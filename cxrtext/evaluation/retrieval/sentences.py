"""Retrieval, and that between the images of a cohort and the sentences of their reports.

Scores have queries in rows and candidates in columns.  A rank is 1 plus the number of wrong
candidates that score at least as high as the best right one: nothing is sorted, ties count against
the model, and a block of rows is looked at at a time, so that memory stays bounded.  What does not
fit, a score that is NaN and a query without a right answer are a ValueError.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.cohort import IMAGES_AT_ONCE, Cohort
from cxrtext.evaluation.intervals.bootstrap import Interval, draw, interval_of
from cxrtext.evaluation.intervals.methods import RESAMPLED, SHARE
from cxrtext.evaluation.intervals.proportions import cluster_codes, codes_of_rows, proportion
from cxrtext.evaluation.metrics import weighted_mean, weighted_median
from cxrtext.evaluation.predictions.columns import (
    as_table,
    images_of,
    numbered,
    texts,
    whole,
    words,
)
from cxrtext.evaluation.rows import BY_CHANCE, RETRIEVAL, Rows, estimate
from cxrtext.evaluation.settings import Settings
from cxrtext.models import ImageTextModel
from cxrtext.records import Sentence

if TYPE_CHECKING:
    import pyarrow as pa

CUTOFFS = (1, 5, 10, 50, 100)
PAPER_CUTOFFS = (10, 50, 100)
"""Those whose mean over both directions the paper calls Recall."""
SCORES_AT_ONCE = 1 << 22
"""Scores looked at at the same time; bounds memory."""
ON_DISK = 1 << 27
"""Scores from which on their matrix lies in a temporary file."""
ROWS_AT_ONCE = 512
Scores = NDArray[np.float32]
Ranks = NDArray[np.int64]
Answers = dict[int, list[int]]


def positive_ranks(
    scores: ArrayLike, relevant: ArrayLike | None = None, left_out: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Rank of the best right answer of each query, [Q], from 1; ties count against the model.

    Args:
        scores: [Q, C], without NaN.
        relevant: [Q, C], boolean: the right answers, one a query or more; by default the diagonal.
        left_out: [Q, C], boolean: candidates that are not counted, as those of the query's own
            patient; a right answer always stays in.
    """
    values = np.asarray(scores)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"scores must be [queries, candidates], got {values.shape}")
    right, apart = (
        None if given is None else np.asarray(given, dtype=np.bool_)
        for given in (relevant, left_out)
    )
    for name, mask in (("relevant", right), ("left_out", apart)):
        if mask is not None and mask.shape != values.shape:
            raise ValueError(f"{name} must be {values.shape}, got {mask.shape}")
    if right is None and values.shape[0] > values.shape[1]:
        raise ValueError("every query wants at least one right answer; give relevant")
    rows = max(1, SCORES_AT_ONCE // values.shape[1])
    ranks = []
    for start in range(0, len(values), rows):
        block = slice(start, start + rows)
        part = values[block].astype(np.float64)
        columns = np.arange(values.shape[1])
        places = np.arange(start, start + len(part))
        answers = places[:, None] == columns if right is None else right[block]
        ranks.append(_ranks(part, answers, None if apart is None else apart[block]))
    return np.concatenate(ranks)


def _ranks(
    values: NDArray[np.float64], right: NDArray[np.bool_], apart: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    if np.isnan(values.max()):  # the maximum is NaN where any score is
        raise ValueError("scores must not be NaN")
    rows, columns = np.nonzero(right)
    if len(np.unique(rows)) < len(values):
        raise ValueError("every query wants at least one right answer")
    # Right answers are few: their rows are gone through, and not the whole block once more.
    best = np.maximum.reduceat(values[rows, columns], np.searchsorted(rows, np.arange(len(values))))
    ahead = values >= best[:, None]
    ahead[rows, columns] = False
    if apart is not None:
        ahead &= ~apart
    counts: NDArray[np.int64] = np.count_nonzero(ahead, axis=1)
    return 1 + counts


def rank_metrics(ranks: ArrayLike, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, float]:
    """Recall at cut-offs, median rank and mean reciprocal rank of ranks [Q] from 1."""
    values = np.asarray(ranks)
    if values.ndim != 1 or not values.size or (values < 1).any():
        raise ValueError("ranks must be a list of numbers from 1")
    metrics = {f"R@{k}": float((values <= k).mean()) for k in cutoffs}
    return {**metrics, "MedR": float(np.median(values)), "MRR": float((1 / values).mean())}


def retrieval_metrics(
    scores: ArrayLike, relevant: ArrayLike | None = None, cutoffs: Sequence[int] = CUTOFFS
) -> dict[str, float]:
    """Recall at cut-offs, median rank and mean reciprocal rank.

    >>> retrieval_metrics([[0.9, 0.1], [0.8, 0.3]], cutoffs=[1])
    {'R@1': 0.5, 'MedR': 1.5, 'MRR': 0.75}

    Returns ``R@K`` for each cut-off, ``MedR`` and ``MRR``; see :func:`positive_ranks`.
    """
    return rank_metrics(positive_ranks(scores, relevant), cutoffs)


def embedding_ranks(
    queries: ArrayLike,
    candidates: ArrayLike,
    *,
    keys: Sequence[Hashable] | None = None,
    groups: Sequence[Hashable] | None = None,
) -> Ranks:
    """Ranks [n] by inner product where query and candidate i, [n, D], are a pair; in blocks.

    Args:
        keys: [n]; a candidate of a pair with an equal key is right.  By default candidate i is the
            one right answer of query i.
        groups: [n]; wrong candidates of an equal group (the same patient's) are not counted.
    """
    left, right = (np.asarray(given, dtype=np.float64) for given in (queries, candidates))
    if left.ndim != 2 or left.shape != right.shape or not right.size:
        raise ValueError(f"embeddings {left.shape} and {right.shape} must be [n, D] both")
    own = codes_of_rows(keys, len(left))
    of = None if groups is None else codes_of_rows(groups, len(left))
    rows = max(1, SCORES_AT_ONCE // len(right))
    ranks = []
    for start in range(0, len(left), rows):
        block = slice(start, start + rows)
        left_out = None if of is None else of[block, None] == of
        ranks.append(positive_ranks(left[block] @ right.T, own[block, None] == own, left_out))
    return np.concatenate(ranks)


@dataclass(frozen=True, slots=True)
class Wording:
    """The distinct sentences of a cohort's reports, [S], and how often each stands in one.

    By sentence the images whose report holds it, and those of every patient with such a report;
    and [S] the patient of the first report that holds it.
    """

    texts: list[str]
    times: list[int]
    images: Answers
    related: Answers
    patients: list[str]


def gather_wording(cohort: Cohort, sentences: Sequence[Sentence]) -> Wording:
    of_study: dict[str, list[int]] = defaultdict(list)
    of_patient: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(cohort.records):
        of_study[record.study_id].append(place)
        of_patient[record.patient_id].append(place)
    numbers: dict[str, int] = {}
    times: list[int] = []
    patients: list[str] = []
    images: dict[int, set[int]] = defaultdict(set)
    related: dict[int, set[int]] = defaultdict(set)
    for sentence in sentences:
        places = of_study.get(sentence.study_id)
        if not places:
            continue
        patient = cohort.records[places[0]].patient_id
        number = numbers.setdefault(sentence.sentence, len(numbers))
        if number == len(times):
            times.append(0)
            patients.append(patient)
        times[number] += 1
        images[number].update(places)
        related[number].update(of_patient[patient])
    right, theirs = ({one: sorted(all_) for one, all_ in of.items()} for of in (images, related))
    return Wording(list(numbers), times, right, theirs, patients)


def transposed(answers: Answers) -> Answers:
    found: Answers = defaultdict(list)
    for number, places in answers.items():
        for place in places:
            found[place].append(number)
    return found


DIRECTIONS = ("sentence to image", "image to sentence")


@dataclass(frozen=True, slots=True)
class Queries:
    """Ranks [Q] of a direction among so many candidates; ``names`` are the sentences or images.

    ``right`` [Q] says how many answers of each are right; None in predictions that do not say so.
    """

    names: list[str]
    patients: list[str]
    ranks: Ranks
    candidates: int
    right: Ranks | None = None


@dataclass(frozen=True, slots=True)
class SentenceRanks:
    queries: dict[str, Queries]

    def to_table(self) -> "pa.Table":
        import pyarrow as pa

        parts = list(self.queries.items())
        sizes = [len(one.ranks) for _, one in parts]
        own = np.repeat(np.arange(len(parts)), sizes)
        right = [one.right for _, one in parts if one.right is not None]

        def asking(asks: str) -> "pa.DictionaryArray":
            names = [name if of == asks else None for of, one in parts for name in one.names]
            return pa.array(names, pa.string()).dictionary_encode()

        return as_table(
            {
                "direction": words([name for name, _ in parts], own),
                "sentence": asking(DIRECTIONS[0]),
                "image": asking(DIRECTIONS[1]),
                "patient_id": words([name for _, one in parts for name in one.patients]),
                "rank": np.concatenate([one.ranks for _, one in parts]),
                "candidates": np.repeat([one.candidates for _, one in parts], sizes),
                **({"right": np.concatenate(right)} if len(right) == len(parts) else {}),
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        names, which = numbered(table["direction"])
        if set(names) != set(DIRECTIONS):
            raise ValueError(f"directions are {' and '.join(DIRECTIONS)}")
        asking = {name: texts(table, name) for name in ("sentence", "image")}
        queries = [a or b for a, b in zip(asking["sentence"], asking["image"], strict=True)]
        patients = texts(table, "patient_id")
        ranks, candidates = whole(table, "rank"), whole(table, "candidates")
        known = "right" in table.column_names and not table["right"].null_count
        right = whole(table, "right") if known else None
        found = {}
        for number, name in enumerate(names):
            at = np.flatnonzero(which == number)
            if len(set(candidates[at].tolist())) != 1:
                raise ValueError("candidates differ within a direction")
            found[name] = Queries(
                [queries[row] for row in at],
                [patients[row] for row in at],
                ranks[at],
                int(candidates[at[0]]),
                None if right is None else right[at],
            )
        return cls(found)


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


def _ranks_of(
    block: Callable[[Sequence[int]], Scores],
    queries: Sequence[int],
    columns: int,
    right: Answers,
    apart: Answers | None,
) -> Ranks:
    parts = []
    for start in range(0, len(queries), ROWS_AT_ONCE):
        rows = queries[start : start + ROWS_AT_ONCE]
        left_out = None if apart is None else _mask(apart, rows, columns)
        parts.append(positive_ranks(block(rows), _mask(right, rows, columns), left_out))
    return np.concatenate(parts)


def rank_sentences(
    model: ImageTextModel, cohort: Cohort, wording: Wording, settings: Settings
) -> SentenceRanks:
    """Rank images for the distinct sentences of their reports, at least one, and the other way."""
    scores = score_matrix(model, cohort, wording.texts)
    right, spoken = transposed(wording.images), sorted(transposed(wording.images))
    apart = (
        (wording.related, transposed(wording.related)) if settings.exclude_same_patient else None
    )
    S, B = scores.shape
    before = _ranks_of(lambda rows: scores[rows], range(S), B, wording.images, apart and apart[0])
    after = _ranks_of(lambda rows: scores[:, rows].T, spoken, S, right, apart and apart[1])
    images = images_of([cohort.records[row] for row in spoken])
    answers = ([len(wording.images[row]) for row in range(S)], [len(right[row]) for row in spoken])
    counts = [np.asarray(some, dtype=np.int64) for some in answers]
    first = Queries(wording.texts, wording.patients, before, B, counts[0])
    second = Queries(images.names, images.patients, after, S, counts[1])
    return SentenceRanks(dict(zip(DIRECTIONS, (first, second), strict=True)))


def chance_median_rank(right: Ranks, candidates: int) -> float:
    """The median rank of the first right answer in a random order.

    >>> chance_median_rank(np.array([1, 1]), 9), chance_median_rank(np.array([5]), 9)
    (5.0, 1.0)

    ``right`` [Q] says how many of the candidates are right for each query, 1 or more.
    """
    left = candidates - np.arange(candidates)
    missed = np.zeros(candidates)  # the share of queries without a right one among the first r
    for count, times in zip(*np.unique(right, return_counts=True), strict=True):
        missed += times / len(right) * np.cumprod(np.maximum(1 - count / left, 0))
    return float(np.argmax(missed <= 0.5) + 1)


def measure_retrieval(given: SentenceRanks, settings: Settings) -> Rows:
    """Metrics of both directions, with intervals."""
    rows = Rows()
    images = given.queries[DIRECTIONS[1]].names
    for direction, one in given.queries.items():
        ranks, patients = one.ranks, len(set(one.patients))
        cutoffs = [k for k in CUTOFFS if k < one.candidates]
        counts = draw(one.patients, settings.resamples, (settings.seed, 4))
        resampled = {"R@10": weighted_mean(ranks <= 10, counts)} if 10 in cutoffs else {}
        resampled["MedR"] = weighted_median(ranks, counts)
        resampled["MRR"] = weighted_mean(1 / ranks, counts)
        ends = {name: interval_of(resampled[name], patients) for name in ("MedR", "MRR")}
        add_ranks(rows, (RETRIEVAL, direction), ranks, cutoffs, cluster_codes(one.patients), ends)
        if one.right is not None:
            chance = chance_median_rank(one.right, one.candidates)
            rows.add(RETRIEVAL, direction, "MedR" + BY_CHANCE, chance, len(ranks))
        rows.add(RETRIEVAL, direction, "queries", len(ranks))
        rows.add(RETRIEVAL, direction, "candidates", one.candidates)
        # The patients of the queries alone, so that no sentence is kept for a comparison.
        keys = (*one.patients, *images)
        for name, values in resampled.items():
            place = RETRIEVAL, direction, name
            rows.compare_by(f"{direction} {name}", place, values, keys, patients)
    return rows


def add_ranks(
    rows: Rows,
    group: tuple[str, str],
    ranks: Ranks,
    cutoffs: Sequence[int],
    patients: NDArray[np.intp],
    ends: Mapping[str, Interval | None],
) -> None:
    """Add :func:`rank_metrics` of the queries [n] of a direction, (part, group).

    ``patients`` [n] are the numbers of the queries' patients, and ``ends`` the intervals of other
    measures than recall, whose intervals are those of shares.
    """
    recall = {f"R@{k}": proportion(ranks <= k, patients).interval() for k in cutoffs}
    for name, value in rank_metrics(ranks, cutoffs).items():
        known = estimate(value, {**ends, **recall}.get(name))
        rows.add(*group, name, known, len(ranks), SHARE if name in recall else RESAMPLED)
