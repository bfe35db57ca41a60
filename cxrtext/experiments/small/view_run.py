"""From plain values and a set to what the two-view trainer takes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from cxrtext.config import Clustered, read_objective
from cxrtext.experiments.small.small_set import SmallSet
from cxrtext.images.simclr import SimclrSpec
from cxrtext.training.metadata import Columns, Kind, cluster
from cxrtext.training.views import ViewSet, ViewSettings


def view_settings(plain: Mapping[str, Any]) -> ViewSettings:
    """Settings from plain values, as they stand in ``job.json``.

    Raises:
        ConfigError: A key or value of the objective is wrong.
        ValueError: Another value is.
    """
    given = dict(plain)
    augmentation: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.pop("augmentation", {}).items()
    }
    return ViewSettings(
        objective=read_objective(given.pop("objective")),
        head=tuple(given.pop("head")),
        augmentation=SimclrSpec(**augmentation),
        **given,
    )


def view_set(held: SmallSet, settings: ViewSettings) -> ViewSet:
    """The training images of a set with what the objective reads of them.

    Args:
        held: The set.
        settings: Clusters are made of its metadata where the objective wants them.
    """
    metadata, kinds = held.metadata, held.kinds
    section = settings.objective
    if metadata is not None and isinstance(section, Clustered):
        metadata, kinds = _clusters(metadata, kinds, section.clusters, settings.seed), ("category",)
    return ViewSet(
        images=torch.from_numpy(held.train.images),
        labels=None if held.labels is None else torch.from_numpy(held.labels),
        eta=None if held.eta is None else torch.from_numpy(held.eta),
        metadata=None if metadata is None else torch.from_numpy(metadata),
        kinds=kinds,
    )


def _clusters(
    values: np.ndarray[Any, np.dtype[np.float32]],
    kinds: tuple[Kind, ...],
    clusters: int | None,
    seed: int,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """K-means of metadata, or its distinct rows, [n, 1]."""
    if clusters is None:
        _, codes = np.unique(values, axis=0, return_inverse=True)
        distinct: np.ndarray[Any, np.dtype[np.float32]] = codes.reshape(-1, 1).astype(np.float32)
        return distinct
    fit = np.ones(len(values), dtype=np.bool_)
    found: np.ndarray[Any, np.dtype[np.float32]] = cluster(
        Columns(kinds, values), fit, min(clusters, len(values)), seed
    )
    return found
