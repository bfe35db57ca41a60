"""Retrieval between the images of a cohort and the sentences of their reports."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.evaluation.cohort import IMAGES_AT_ONCE, Cohort
from cxrtext.evaluation.predictions.columns import images_of, numbered, texts, whole, words
from cxrtext.evaluation.rows import BY_CHANCE, RETRIEVAL, Rows
from cxrtext.metrics.intervals import Median, median_of, share
from cxrtext.metrics.ranking import CUTOFFS, Ranks, chance_median_rank, positive_ranks
from cxrtext.models import ImageTextModel
from cxrtext.records import Sentence

if TYPE_CHECKING:
    import pyarrow as pa

ON_DISK = 1 << 27
"""A matrix of at least this many scores is kept in a temporary file."""
ROWS_AT_ONCE = 512
Scores = NDArray[np.float32]
Answers = dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class Wording:
    """The distinct sentences of a cohort's reports, [S].

    ``images`` are by sentence the images with it in their report, ``patients`` [S] the patient of
    the first report with it.
    """

    texts: list[str]
    images: Answers
    patients: list[str]


def gather_wording(cohort: Cohort, sentences: Sequence[Sentence]) -> Wording:
    of_study: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(cohort.records):
        of_study[record.study_id].append(place)
    numbers: dict[str, int] = {}
    patients: list[str] = []
    images: dict[int, set[int]] = defaultdict(set)
    for sentence in sentences:
        places = of_study.get(sentence.study_id)
        if not places:
            continue
        number = numbers.setdefault(sentence.sentence, len(numbers))
        if number == len(patients):
            patients.append(cohort.records[places[0]].patient_id)
        images[number].update(places)
    right = {number: sorted(places) for number, places in images.items()}
    return Wording(list(numbers), right, patients)


def transposed(answers: Answers) -> Answers:
    swapped: Answers = defaultdict(list)
    for number, places in answers.items():
        for place in places:
            swapped[place].append(number)
    return swapped


DIRECTIONS = ("sentence to image", "image to sentence")


@dataclass(frozen=True, slots=True)
class Queries:
    """Ranks [Q] of a direction among ``candidates``, and how many answers [Q] are ``right``.

    ``names`` are the sentences, the images, or the boxes with their image.
    """

    names: list[str]
    patients: list[str]
    ranks: Ranks
    candidates: int
    right: Ranks


@dataclass(frozen=True, slots=True)
class Ranked:
    """Parts "retrieval" and "box retrieval": queries by direction."""

    queries: dict[str, Queries]

    def to_table(self) -> "pa.Table":
        import pyarrow as pa

        parts = list(self.queries.items())
        sizes = [len(one.ranks) for _, one in parts]
        own = np.repeat(np.arange(len(parts)), sizes)

        def asking(by_sentence: bool) -> "pa.DictionaryArray":
            names = [
                name if (of == DIRECTIONS[0]) == by_sentence else None
                for of, one in parts
                for name in one.names
            ]
            return pa.array(names, pa.string()).dictionary_encode()

        return pa.table(
            {
                "direction": words([name for name, _ in parts], own),
                "sentence": asking(True),
                "image": asking(False),
                "patient_id": words([name for _, one in parts for name in one.patients]),
                "rank": np.concatenate([one.ranks for _, one in parts]),
                "candidates": np.repeat([one.candidates for _, one in parts], sizes),
                "right": np.concatenate([one.right for _, one in parts]),
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        directions, which = numbered(table["direction"])
        if not {"image to sentence", "box to sentence"} & {*directions}:
            raise ValueError("a direction is missing")
        asking = {name: texts(table, name) for name in ("sentence", "image")}
        queries = [a or b for a, b in zip(asking["sentence"], asking["image"], strict=True)]
        patients = texts(table, "patient_id")
        ranks, candidates, right = (whole(table, name) for name in ("rank", "candidates", "right"))
        ranked = {}
        for number, name in enumerate(directions):
            at = np.flatnonzero(which == number)
            if len(set(candidates[at].tolist())) != 1:
                raise ValueError("candidates differ within a direction")
            names, people = ([of[row] for row in at] for of in (queries, patients))
            ranked[name] = Queries(names, people, ranks[at], int(candidates[at[0]]), right[at])
        return cls(ranked)


@torch.inference_mode()
def score_matrix(model: ImageTextModel, cohort: Cohort, texts: Sequence[str]) -> Scores:
    """Scores [S, B] in float32; large ones are in a temporary file mapped into memory."""
    shape = len(texts), len(cohort.records)
    if shape[0] * shape[1] < ON_DISK:
        scores = np.empty(shape, dtype=np.float32)
    else:
        with TemporaryFile() as handle:  # the map keeps the file, which has no name any more
            scores = np.memmap(handle, dtype=np.float32, mode="w+", shape=shape)
    vectors = model.embed_sentences(texts)
    for number, part in enumerate(cohort.chunks(model)):
        start = number * IMAGES_AT_ONCE
        for begin in range(0, len(texts), 8 * ROWS_AT_ONCE):
            rows = slice(begin, begin + 8 * ROWS_AT_ONCE)
            scores[rows, start : start + len(part)] = model.scores(part, vectors[rows]).cpu()
    return scores


def _ranks_of(
    block: Callable[[Sequence[int]], Scores],
    queries: Sequence[int],
    columns: int,
    right: Answers,
) -> Ranks:
    parts = []
    for start in range(0, len(queries), ROWS_AT_ONCE):
        rows = queries[start : start + ROWS_AT_ONCE]
        mask = np.zeros((len(rows), columns), dtype=np.bool_)
        for place, row in enumerate(rows):
            mask[place, right[row]] = True
        parts.append(positive_ranks(block(rows), mask))
    return np.concatenate(parts)


def rank_sentences(model: ImageTextModel, cohort: Cohort, wording: Wording) -> Ranked:
    """Rank images for the distinct sentences of their reports, at least one, and vice versa."""
    scores = score_matrix(model, cohort, wording.texts)
    right, spoken = transposed(wording.images), sorted(transposed(wording.images))
    S, B = scores.shape
    before = _ranks_of(lambda rows: scores[rows], range(S), B, wording.images)
    after = _ranks_of(lambda rows: scores[:, rows].T, spoken, S, right)
    images = images_of([cohort.records[row] for row in spoken])
    answers = ([len(wording.images[row]) for row in range(S)], [len(right[row]) for row in spoken])
    counts = [np.asarray(some, dtype=np.int64) for some in answers]
    first = Queries(wording.texts, wording.patients, before, B, counts[0])
    second = Queries(images.names, images.patients, after, S, counts[1])
    return Ranked(dict(zip(DIRECTIONS, (first, second), strict=True)))


def measure_retrieval(given: Ranked) -> Rows:
    """Metrics of both directions, with intervals."""
    rows = Rows()
    images = given.queries[DIRECTIONS[1]].names
    for direction, one in given.queries.items():
        cutoffs = [k for k in CUTOFFS if k < one.candidates]
        median = add_ranks(rows, (RETRIEVAL, direction), one.ranks, cutoffs, one.patients)
        chance = chance_median_rank(one.right, one.candidates)
        rows.add(RETRIEVAL, direction, "MedR" + BY_CHANCE, chance, len(one.ranks))
        rows.add(RETRIEVAL, direction, "queries", len(one.ranks))
        rows.add(RETRIEVAL, direction, "candidates", one.candidates)
        # Only the patients of the queries, so that a comparison keeps no sentences.
        keys = (*one.patients, *images)
        top = share(one.ranks <= 10, one.patients) if 10 in cutoffs else None
        for name, figure in (
            ("R@10", top), ("MedR", median), ("MRR", share(1 / one.ranks, one.patients))
        ):  # fmt: skip
            rows.compare_by(f"{direction} {name}", figure, keys)
    return rows


def add_ranks(
    rows: Rows,
    group: tuple[str, str],
    ranks: Ranks,
    cutoffs: Sequence[int],
    patients: Sequence[str],
) -> Median:
    """Add recall, median rank and mean reciprocal rank of queries [n] for (part, group).

    ``patients`` [n] are the queries'.  Returns the median rank.
    """
    for k in cutoffs:
        rows.add(*group, f"R@{k}", share(ranks <= k, patients), len(ranks))
    median = median_of(ranks, patients)
    rows.add(*group, "MedR", median, len(ranks))
    rows.add(*group, "MRR", share(1 / ranks, patients), len(ranks))
    return median
