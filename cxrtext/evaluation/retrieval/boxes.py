"""Retrieval between boxes and the sentences they illustrate, in both directions."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.grounding.boxes import (
    BOXES_AT_ONCE,
    PlacedBox,
    region_boxes,
    region_of_interest_align,
)
from cxrtext.evaluation.retrieval.sentences import Queries, Ranked, add_ranks
from cxrtext.evaluation.rows import BOTH, BOX_RETRIEVAL, Rows
from cxrtext.metrics.intervals import Measured, average, share
from cxrtext.metrics.ranking import CUTOFFS, Ranks, embedding_ranks
from cxrtext.models import ImageTextModel

PAPER_CUTOFFS = (10, 50, 100)
"""The cutoffs whose mean over both directions the paper calls Recall."""
BINS = 7
"""Bins along each side of a box; their mean is the box's feature."""
DIRECTIONS = ("sentence to box", "box to sentence")
EQUAL_RIGHT = ", equal sentences right"
"""Suffix of a direction's name for the variant where equal sentences are right."""
Vectors = NDArray[np.float64]


@torch.inference_mode()
def box_features(cohort: Cohort, boxes: Sequence[PlacedBox]) -> tuple[Vectors, list[int]]:
    """Unit vectors of the boxes that lie in the crop, [n, D], and their places, [n]."""
    kept: list[int] = []
    cells = []
    for number, box in enumerate(boxes):
        height, width, _ = cohort.grid(box.row).shape
        cell = region_boxes([box.bbox], cohort.geometry(box.row), (height, width))
        if (cell[:, 2:] > 0).all():
            kept.append(number)
            cells.append(cell)
    parts = [torch.empty(0, cohort.regions.shape[-1])]
    for start in range(0, len(kept), BOXES_AT_ONCE):
        some = slice(start, start + BOXES_AT_ONCE)
        grids = torch.stack([cohort.grid(boxes[number].row) for number in kept[some]])
        # [R, h, w, D] -> [R, D, h, w]
        aligned = region_of_interest_align(grids.permute(0, 3, 1, 2), torch.cat(cells[some]), BINS)
        parts.append(F.normalize(aligned.mean(dim=(2, 3)), dim=-1))
    return torch.cat(parts).double().numpy(), kept


def rank_boxes(
    model: ImageTextModel, cohort: Cohort, boxes: Sequence[PlacedBox]
) -> tuple[Ranked | None, int]:
    """Rank pairs of a box and its sentence; also returns how many boxes lie outside the crop.

    The ranks are None if all do.
    """
    features, kept = box_features(cohort, boxes)
    if not kept:
        return None, len(boxes)
    own = [boxes[number] for number in kept]
    sentences = [box.text for box in own]
    place = {text: row for row, text in enumerate(dict.fromkeys(sentences))}
    vectors = model.embed_sentences(list(place)).double().cpu().numpy()
    vectors = vectors[[place[text] for text in sentences]]
    patients = [cohort.patients[box.row] for box in own]
    names = [f"{cohort.records[box.row].name} {list(box.bbox)}" for box in own]
    counts = Counter(sentences)
    queries = {}
    for suffix, keys in (("", None), (EQUAL_RIGHT, sentences)):
        right = np.array([counts[text] if keys else 1 for text in sentences], dtype=np.int64)
        for name, asked, told in zip(
            DIRECTIONS, (vectors, features), (features, vectors), strict=True
        ):
            ranks = embedding_ranks(asked, told, keys=keys)
            queries[name + suffix] = Queries(names, patients, ranks, len(own), right)
    return Ranked(queries), len(boxes) - len(kept)


def measure_box_retrieval(given: Ranked) -> Rows:
    """Recall, median ranks and intervals; strictly, and with equal sentences right."""
    rows = Rows()
    first = given.queries[DIRECTIONS[0]]
    for suffix in ("", EQUAL_RIGHT):
        ranks = {name + suffix: given.queries[name + suffix].ranks for name in DIRECTIONS}
        for name, figure in _both(rows, ranks, first.patients, suffix).items():
            if not suffix:
                rows.compare_by(name, figure, tuple(first.names))
    rows.add(BOX_RETRIEVAL, BOTH, "pairs", len(first.names))
    return rows


def _both(
    rows: Rows, ranks: Mapping[str, Ranks], patients: Sequence[str], suffix: str
) -> dict[str, Measured | None]:
    """Measures of each direction, and the paper's for both: "Recall", and the mean "MedR"."""
    n = len(patients)
    cutoffs = [k for k in CUTOFFS if k < n]
    # For each pair the share of directions and cutoffs at which it is found.
    right = np.mean([some <= k for some in ranks.values() for k in PAPER_CUTOFFS], axis=0)
    recall = share(right, patients) if set(PAPER_CUTOFFS) <= set(cutoffs) else None
    own = Rows()
    medians = [
        add_ranks(own, (BOX_RETRIEVAL, name), some, cutoffs, patients)
        for name, some in ranks.items()
    ]
    both: dict[str, Measured | None] = {"Recall": recall, "MedR": average(medians)}
    for name, figure in both.items():
        rows.add(BOX_RETRIEVAL, BOTH + suffix, name, figure, n)
    rows.update(own)
    return both
