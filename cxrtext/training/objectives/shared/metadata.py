"""Columns of a manifest as numbers, kernels and clusters, for conditional objectives."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from cxrtext.config import HardnegCclk, ObjectiveSection, WithKernel
from cxrtext.errors import ConfigError, DataError
from cxrtext.objectives import kernels
from cxrtext.records import ImageRecord
from cxrtext.records.numbers import read_number

Kind = Literal["number", "category"]
Values = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@dataclass(frozen=True, slots=True)
class Columns:
    kinds: tuple[Kind, ...]  # what each column holds, M in all
    # [n, M]; numbers in standard deviations from the training images' mean, categories as whole
    # numbers
    values: Values


def read_columns(manifest: Path, records: Sequence[ImageRecord], names: Sequence[str]) -> Columns:
    """Read metadata of both splits; a column whose every value is a number is one of numbers."""
    columns = [_read_column(manifest, records, name) for name in names]
    return Columns(
        tuple(kind for kind, _ in columns),
        np.stack([values for _, values in columns], axis=1).astype(np.float32),
    )


def _read_column(
    manifest: Path, records: Sequence[ImageRecord], name: str
) -> tuple[Kind, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    there = records[0].metadata
    if name not in there:
        raise DataError(
            f"{manifest}: no column '{name}', which objective.condition names; there are: "
            f"{', '.join(there) or 'none'}"
        )
    cells = [record.metadata[name].strip() for record in records]
    if empty := [record.row for record, cell in zip(records, cells, strict=True) if not cell]:
        raise DataError(
            f"{manifest}: row {min(empty)}: '{name}' is empty, as in {len(empty)} of {len(cells)} "
            "training and validation rows; fill it, leave these rows out, or take the column out "
            "of objective.condition"
        )
    fit = np.asarray([record.split == "train" for record in records])
    numbers = [as_number(cell) for cell in cells]
    if all(number is not None for number in numbers):
        values = np.asarray(numbers, dtype=np.float64)
        mean, deviation = values[fit].mean(), values[fit].std()
        kind: Kind = "number"
        varies = bool(deviation > 0)
        values = (values - mean) / (deviation if varies else 1.0)
    else:
        code = {cell: i for i, cell in enumerate(sorted(set(cells)))}
        values = np.asarray([code[cell] for cell in cells], dtype=np.float64)
        kind, varies = "category", len(set(values[fit])) > 1
    if not varies:
        raise DataError(
            f"{manifest}: '{name}' is the same in all training rows, so nothing can be conditional "
            "on it; take it out of objective.condition"
        )
    return kind, values


def as_number(cell: str) -> float | None:
    """A finite number as a table has it, or None."""
    try:
        return read_number(cell)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel and the columns that it compares."""

    name: str  # one of objectives.kernels
    sigma: float = 1.0  # its width in standard deviations, where it has one
    columns: tuple[int, ...] | None = None  # indices of the columns; None for all


def kernels_of(
    wanted: Sequence[tuple[str, float]], names: Sequence[str], kinds: Sequence[Kind]
) -> list[Kernel]:
    """Decide which kernel compares which columns; their product is the kernel of all.

    ``wanted`` has name and sigma: one a column; or one for all numbers together, beside which
    categories are compared by delta; or none, which is RBF with σ = 1.
    """
    if len(wanted) == len(names) > 0:
        for (kernel, _), name, kind in zip(wanted, names, kinds, strict=True):
            if kind == "category" and kernel != "delta":
                raise ConfigError(
                    f"objective.kernel: {kernel} compares numbers, but column '{name}' holds "
                    "words; take delta for it"
                )
        return [Kernel(kernel, sigma, (i,)) for i, (kernel, sigma) in enumerate(wanted)]
    kernel, sigma = wanted[0] if wanted else ("rbf", 1.0)
    numbers = tuple(i for i, kind in enumerate(kinds) if kind == "number")
    words = tuple(i for i, kind in enumerate(kinds) if kind == "category")
    made = [Kernel(kernel, sigma, numbers)] if numbers else []
    return [*made, Kernel("delta", columns=words)] if words else made


def kernels_for(section: ObjectiveSection, kinds: Sequence[Kind]) -> list[Kernel]:
    if isinstance(section, HardnegCclk):
        return [Kernel(one.name, one.sigma) for one in section.kernel] or [Kernel("rbf")]
    if isinstance(section, WithKernel):
        wanted = [(one.name, one.sigma) for one in section.kernel]
        return kernels_of(wanted, section.condition, kinds)
    return []


def gram(values: Tensor, parts: Sequence[Kernel]) -> Tensor:
    """The Gram matrix [n, n] of rows [n, M]: the product of the kernels of their columns."""
    grams = []
    for kernel in parts:
        z = values if kernel.columns is None else values[:, list(kernel.columns)]
        width = (kernel.sigma,) if kernel.name in ("rbf", "laplacian") else ()
        grams.append(getattr(kernels, kernel.name)(z, *width))
    return kernels.product(*grams)


def cluster(
    columns: Columns, fit: np.ndarray[tuple[int], np.dtype[np.bool_]], clusters: int, seed: int
) -> Values:
    """The nearest cluster of each row of metadata, [n, 1], by k-means of the training rows ``fit``.

    A category enters as one number a value, 1 or 0.
    """
    if clusters > fit.sum():
        raise ConfigError(
            f"objective.clusters: {clusters} clusters of {int(fit.sum())} training images; give "
            "fewer"
        )
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    z = np.concatenate(
        [
            (value if kind == "number" else value == np.unique(value)).astype(np.float64)
            for kind, value in zip(columns.kinds, columns.values.T[..., None], strict=True)
        ],
        axis=1,
    )
    # Fewer distinct rows than clusters leave clusters empty, and several threads add up in any
    # order: each process of a run, and a resumed one, is to find the same.
    distinct = len(np.unique(z[fit], axis=0))
    with threadpool_limits(1):
        found = KMeans(min(clusters, distinct), n_init=1, random_state=seed).fit(z[fit])
        nearest = found.predict(z)
    return np.asarray(nearest[:, None], dtype=np.float32)


def distinct_values(manifest: Path, columns: Columns, names: Sequence[str]) -> Values:
    """Each distinct row of metadata as a cluster of its own, [n, 1]."""
    distinct, codes = np.unique(columns.values, axis=0, return_inverse=True)
    if len(distinct) > len(codes) / 2:
        raise DataError(
            f"{manifest}: {', '.join(names)} take {len(distinct)} different values in {len(codes)} "
            "rows, so hardly any two images share one; set objective.clusters"
        )
    return codes.reshape(-1, 1).astype(np.float32)
