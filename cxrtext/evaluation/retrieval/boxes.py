"""Retrieval between boxes and the sentences they illustrate, in both directions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.grounding.boxes import (
    BOXES_AT_ONCE,
    BoxRow,
    PlacedBox,
    region_boxes,
    region_of_interest_align,
)
from cxrtext.evaluation.predictions.columns import (
    Images,
    Places,
    as_table,
    column_of,
    images_of,
    lists,
    matrix,
    texts,
    whole,
    words,
)
from cxrtext.evaluation.retrieval.sentences import add_ranks
from cxrtext.evaluation.rows import BOTH, BOX_RETRIEVAL, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import Measured, average, share
from cxrtext.metrics.ranking import CUTOFFS, Ranks, embedding_ranks
from cxrtext.models import ImageTextModel

if TYPE_CHECKING:
    import pyarrow as pa

PAPER_CUTOFFS = (10, 50, 100)
"""Those whose mean over both directions the paper calls Recall."""
BINS = 7
"""Bins along each side of a box; their mean is the feature of the box."""
DIRECTIONS = ("sentence to box", "box to sentence")
EQUAL_RIGHT = ", equal sentences right"
"""What follows the name of a direction in the variant in which equal sentences are right."""
Vectors = NDArray[np.float64]


EQUAL = "equal_"
"""What columns of the variant begin with in which equal sentences are right."""


@dataclass(frozen=True, slots=True)
class BoxRanks:
    """Part "box retrieval": the ranks of n pairs of a box and its sentence.

    ``places`` [n] are of the pairs in ``images``; ``ranks`` by direction, [n], and ``equal`` those
    of the variant in which equal sentences are right.
    """

    images: Images
    places: Places
    findings: list[str]
    sentences: list[str]
    boxes: list[BoxRow]
    ranks: dict[str, Ranks]
    equal: dict[str, Ranks]

    def to_table(self) -> "pa.Table":
        columns = {
            **self.images.to_columns(self.places),
            "finding": words(self.findings),
            "sentence": words(self.sentences),
            "box": lists(np.array(self.boxes, dtype=np.float64)),
        }
        for name in DIRECTIONS:
            columns[column_of(name)] = self.ranks[name]
            columns[EQUAL + column_of(name)] = self.equal[name]
        return as_table(columns)

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        images, places = Images.from_columns(table)
        boxes = [(x, y, w, h) for x, y, w, h in matrix(table, "box").tolist()]
        sets = [
            {name: whole(table, prefix + column_of(name)) for name in DIRECTIONS}
            for prefix in ("", EQUAL)
        ]
        return cls(images, places, texts(table, "finding"), texts(table, "sentence"), boxes, *sets)


@torch.inference_mode()
def box_features(cohort: Cohort, boxes: Sequence[PlacedBox]) -> tuple[Vectors, list[int]]:
    """Unit vectors of boxes, [n, D], and the places of the boxes that lie in the crop, [n]."""
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
        aligned = region_of_interest_align(
            grids.permute(0, 3, 1, 2), torch.cat(cells[some]), BINS, torch.arange(len(grids))
        )
        parts.append(F.normalize(aligned.mean(dim=(2, 3)), dim=-1))
    return torch.cat(parts).double().numpy(), kept


def _ranks(
    texts: Vectors, features: Vectors, keys: Sequence[str] | None, groups: Sequence[str] | None
) -> dict[str, Ranks]:
    return {
        DIRECTIONS[0]: embedding_ranks(texts, features, keys=keys, groups=groups),
        DIRECTIONS[1]: embedding_ranks(features, texts, keys=keys, groups=groups),
    }


def rank_boxes(
    model: ImageTextModel, cohort: Cohort, boxes: Sequence[PlacedBox], settings: Settings
) -> tuple[BoxRanks | None, int]:
    """Rank pairs of a box and its sentence, None if no box lies in a crop; how many lie outside."""
    features, kept = box_features(cohort, boxes)
    if not kept:
        return None, len(boxes)
    own = [boxes[number] for number in kept]
    sentences = [box.text for box in own]
    place = {text: row for row, text in enumerate(dict.fromkeys(sentences))}
    vectors = model.embed_sentences(list(place)).double().cpu().numpy()
    vectors = vectors[[place[text] for text in sentences]]
    patients = [cohort.patients[box.row] for box in own]
    groups = patients if settings.exclude_same_patient else None
    return BoxRanks(
        images_of(cohort.records),
        np.array([box.row for box in own], dtype=np.intp),
        [box.finding for box in own],
        sentences,
        [box.bbox for box in own],
        _ranks(vectors, features, None, groups),
        _ranks(vectors, features, sentences, groups),
    ), len(boxes) - len(kept)


def measure_box_retrieval(given: BoxRanks) -> Rows:
    """Recall, median ranks and their intervals; strict, and with equal sentences right."""
    rows = Rows()
    patients = [given.images.patients[place] for place in given.places]
    names = [given.images.names[place] for place in given.places]
    same = tuple(zip(names, given.boxes, strict=True))
    for ranks, suffix in ((given.ranks, ""), (given.equal, EQUAL_RIGHT)):
        for name, found in _both(rows, ranks, patients, suffix).items():
            if not suffix:
                rows.compare_by(name, found, same)
    rows.add(BOX_RETRIEVAL, BOTH, "pairs", len(given.places))
    return rows


def _both(
    rows: Rows, ranks: Mapping[str, Ranks], patients: Sequence[str], suffix: str
) -> dict[str, Measured | None]:
    """Measures of each direction, and the paper's of both: "Recall", and the mean of "MedR"."""
    n = len(patients)
    cutoffs = [k for k in CUTOFFS if k < n]
    # Of each pair the share of directions and cutoffs at which it is found.
    right = np.mean([some <= k for some in ranks.values() for k in PAPER_CUTOFFS], axis=0)
    recall = share(right, patients) if set(PAPER_CUTOFFS) <= set(cutoffs) else None
    own = Rows()
    medians = [
        add_ranks(own, (BOX_RETRIEVAL, name + suffix), some, cutoffs, patients)
        for name, some in ranks.items()
    ]
    both: dict[str, Measured | None] = {"Recall": recall, "MedR": average(medians)}
    for name, found in both.items():
        rows.add(BOX_RETRIEVAL, BOTH + suffix, name, found, n)
    rows.update(own)
    return both
