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
from cxrtext.evaluation.predictions.columns import (
    as_table,
    images_of,
    numbered,
    texts,
    whole,
    words,
)
from cxrtext.evaluation.rows import BY_CHANCE, RETRIEVAL, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import Median, mean_of, median_of, share
from cxrtext.metrics.ranking import CUTOFFS, Ranks, chance_median_rank, positive_ranks
from cxrtext.models import ImageTextModel
from cxrtext.records import Sentence

if TYPE_CHECKING:
    import pyarrow as pa

ON_DISK = 1 << 27
"""Scores from which on their matrix lies in a temporary file."""
ROWS_AT_ONCE = 512
Scores = NDArray[np.float32]
Answers = dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class Wording:
    """The distinct sentences of a cohort's reports, [S].

    By sentence the images whose report holds it, and those of every patient with such a report;
    and [S] the patient of the first report that holds it.
    """

    texts: list[str]
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
    patients: list[str] = []
    images: dict[int, set[int]] = defaultdict(set)
    related: dict[int, set[int]] = defaultdict(set)
    for sentence in sentences:
        places = of_study.get(sentence.study_id)
        if not places:
            continue
        patient = cohort.records[places[0]].patient_id
        number = numbers.setdefault(sentence.sentence, len(numbers))
        if number == len(patients):
            patients.append(patient)
        images[number].update(places)
        related[number].update(of_patient[patient])
    right, theirs = ({one: sorted(all_) for one, all_ in of.items()} for of in (images, related))
    return Wording(list(numbers), right, theirs, patients)


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


def measure_retrieval(given: SentenceRanks) -> Rows:
    """Metrics of both directions, with intervals."""
    rows = Rows()
    images = given.queries[DIRECTIONS[1]].names
    for direction, one in given.queries.items():
        cutoffs = [k for k in CUTOFFS if k < one.candidates]
        median = add_ranks(rows, (RETRIEVAL, direction), one.ranks, cutoffs, one.patients)
        if one.right is not None:
            chance = chance_median_rank(one.right, one.candidates)
            rows.add(RETRIEVAL, direction, "MedR" + BY_CHANCE, chance, len(one.ranks))
        rows.add(RETRIEVAL, direction, "queries", len(one.ranks))
        rows.add(RETRIEVAL, direction, "candidates", one.candidates)
        # The patients of the queries alone, so that no sentence is kept for a comparison.
        keys = (*one.patients, *images)
        top = share(one.ranks <= 10, one.patients) if 10 in cutoffs else None
        for name, found in (
            ("R@10", top), ("MedR", median), ("MRR", mean_of(1 / one.ranks, one.patients))
        ):  # fmt: skip
            rows.compare_by(f"{direction} {name}", found, keys)
    return rows


def add_ranks(
    rows: Rows,
    group: tuple[str, str],
    ranks: Ranks,
    cutoffs: Sequence[int],
    patients: Sequence[str],
) -> Median:
    """Add recall, median rank and mean reciprocal rank of the queries [n] of (part, group).

    ``patients`` [n] are the queries'.  Returns the median rank.
    """
    for k in cutoffs:
        rows.add(*group, f"R@{k}", share(ranks <= k, patients), len(ranks))
    median = median_of(ranks, patients)
    rows.add(*group, "MedR", median, len(ranks))
    rows.add(*group, "MRR", mean_of(1 / ranks, patients), len(ranks))
    return median
