"""Queries as they are sent to shards, and what shards send as an archive gives it."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index import ImageHit, IndexedImage, Query
from cxrtext.index.features.scoring import mean_region
from cxrtext.shards import protocol as p


def vectors_of(query: Query) -> p.QueryVectors:
    """A query as it is sent."""

    def packed(values: Tensor | None) -> p.Vectors | None:
        return None if values is None else p.Vectors.of(values.cpu().float().numpy())

    return p.QueryVectors(
        texts=packed(query.texts),
        without=packed(query.without),
        image=packed(query.image),
        image_weight=query.image_weight,
    )


def mean_of(regions: Tensor) -> NDArray[np.float32]:
    """The mean region [D] of an image with regions [N, D]."""
    mean: NDArray[np.float32] = mean_region(regions[None].float()).cpu()[0].numpy()
    return mean


def image_of(row: p.Row) -> IndexedImage:
    """An image of a shard; its file is the shard's own business."""
    owner = (row.study_id, row.patient_id, row.split)
    return IndexedImage(row.key, row.image_id, "", *owner, row.height, row.width, row.metadata)


def hit_of(score: float, row: p.Row) -> ImageHit:
    """An image of a shard as a hit."""
    return ImageHit(image_of(row), score, row.labels, row.unlike)
