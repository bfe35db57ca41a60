"""Objectives that use columns of the manifest, by kernels or by clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from cxrtext.config import Section
from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.records import ImageRecord
from cxrtext.records.numbers import read_number
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Source, Terms

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["number", "category"]
Values = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@dataclass(frozen=True, slots=True)
class Columns:
    kinds: tuple[Kind, ...]  # the kind of each of M columns
    # [n, M]; numbers in standard deviations from the training images' mean, categories as whole
    # numbers
    values: Values


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
    """A table cell as a finite number, or None."""
    try:
        return read_number(cell)
    except ValueError:
        return None


WIDE = ("rbf", "laplacian")
"""Kernels with a width sigma."""


class Kernel(Section):
    """A kernel; sigma is in the column's standard deviations."""

    name: Literal["rbf", "laplacian", "linear", "cosine", "polynomial", "delta"] = "rbf"
    sigma: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _width(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        if given.get("name", "rbf") in WIDE:
            return {"sigma": 1.0, **given}
        if given.get("sigma") is not None:
            raise ValueError(
                "sigma: this kernel takes no such key; only rbf and laplacian have a sigma"
            )
        return given


def _several(kernel: object) -> object:
    """A list of kernels from a list or a single kernel; a bare name is a kernel with that name."""
    if kernel is None:
        return ()
    listed = kernel if isinstance(kernel, (list, tuple)) else [kernel]
    return [{"name": one} if isinstance(one, str) else one for one in listed]


Kernels = Annotated[tuple[Kernel, ...], BeforeValidator(_several)]
Compared = Sequence[tuple[Kernel, list[int]]]
"""Kernels, and the columns that each compares."""


def check_kernels(kernels: Sequence[Kernel], columns: int) -> None:
    if len(kernels) not in (0, 1, columns):
        raise ValueError(
            f"kernel: {len(kernels)} kernels for {columns} column(s) of condition; give "
            "one for all, or one per column in order"
        )


def kernels_of(wanted: Sequence[Kernel], names: Sequence[str], kinds: Sequence[Kind]) -> Compared:
    """Which kernel compares which columns; the product of all is the kernel of the metadata.

    Either one kernel per column; or one for all numbers together, with delta for categories; or
    none, which means RBF with σ = 1 for the numbers.
    """
    if len(wanted) == len(names) > 0:
        for kernel, name, kind in zip(wanted, names, kinds, strict=True):
            if kind == "category" and kernel.name != "delta":
                raise ConfigError(
                    f"objective.kernel: {kernel.name} compares numbers, but column '{name}' holds "
                    "words; take delta for it"
                )
        return [(kernel, [i]) for i, kernel in enumerate(wanted)]
    numbers = [i for i, kind in enumerate(kinds) if kind == "number"]
    words = [i for i, kind in enumerate(kinds) if kind == "category"]
    first = wanted[0] if wanted else Kernel.model_validate({})
    made = [(first, numbers)] if numbers else []
    return [*made, (Kernel(name="delta"), words)] if words else made


def gram(values: Tensor, compared: Compared) -> Tensor:
    """The Gram matrix [n, n] of rows [n, M]: the product of their columns' kernels."""
    from cxrtext.objectives import kernels

    grams = []
    for kernel, columns in compared:
        width = (kernel.sigma or 1.0,) if kernel.name in WIDE else ()
        grams.append(getattr(kernels, kernel.name)(values[:, columns], *width))
    return kernels.product(*grams)


class Conditional(Contrast):
    """The base of objectives with columns of the manifest."""

    condition: Annotated[
        tuple[str, ...], BeforeValidator(lambda v: [v] if isinstance(v, str) else v or ())
    ] = ()

    @model_validator(mode="after")
    def _columns(self) -> Self:
        if not self.condition:
            raise ValueError(
                f"condition: {self.name} needs one or more columns of the manifest, such as [age]"
            )
        if len(set(self.condition)) < len(self.condition):
            raise ValueError("condition: a column is named twice")
        return self

    def columns(self, source: Source) -> Columns:
        """Metadata of both splits; a column has numbers if every value is one, else categories."""
        manifest = source.config.data.manifest
        columns = [_read_column(manifest, source.records, name) for name in self.condition]
        values = np.stack([values for _, values in columns], axis=1).astype(np.float32)
        return Columns(tuple(kind for kind, _ in columns), values)


def by_name(source: Source, values: Values) -> Callable[[Drawn], Tensor]:
    """A function that gives a batch's rows [B, M] of all records' values [n, M]."""
    import torch

    of = {record.name: row for record, row in zip(source.records, values, strict=True)}
    return lambda drawn: torch.from_numpy(np.stack([of[record.name] for record in drawn.records]))


class WithKernel(Conditional):
    """``known["kernel"]`` [B, B]: the images' columns, compared by kernels."""

    kernel: Kernels = ()

    @model_validator(mode="after")
    def _kernels(self) -> Self:
        check_kernels(self.kernel, len(self.condition))
        return self

    def compared(self, kinds: Sequence[Kind]) -> Compared:
        return kernels_of(self.kernel, self.condition, kinds)

    def prepare(self, source: Source) -> Ask:
        columns = self.columns(source)
        compared = self.compared(columns.kinds)
        values_of = by_name(source, columns.values)

        def ask(drawn: Drawn) -> dict[str, Any]:
            with self.defined():
                kernel = gram(values_of(drawn), compared)
            return {"kernel": kernel, **self.check(kernel, drawn.image_of)}

        return ask

    def check(self, kernel: Tensor, positive: Tensor) -> dict[str, Any]:
        """Refuse a kernel [B, B] if the loss of these anchors is not defined for it."""
        return {}

    @contextmanager
    def defined(self) -> Iterator[None]:
        """Say which key to change if a batch's metadata leave the loss undefined."""
        try:
            yield
        except ValueError as error:
            raise WorkError(
                f"objective.name: {self.name} is not defined on a batch: {error}; raise "
                "training.batch, or change objective.kernel or objective.condition"
            ) from None

    def turned(self, forward: Direction) -> Direction:
        """Images and only their first sentences, so that the images' kernel still fits."""
        return of_first_sentences(forward)


def of_first_sentences(forward: Direction) -> Direction:
    """Images as anchors, with their first sentence as positive; only first sentences count."""
    import torch

    B = forward.scores.shape[1]
    first = torch.arange(B, device=forward.scores.device)
    return replace(forward, scores=forward.scores[:B].T, positive=first, eta=forward.eta[:B])


def cclk(d: Direction, ridge: float, *, fair: bool) -> Terms:
    """A CCL-K loss with ``known["kernel"]``."""
    from cxrtext.objectives.conditional import cclk_terms, conditional_weights

    weights = conditional_weights(d.known["kernel"], ridge)
    return Terms(*cclk_terms(d.scores, weights, d.positive, fair=fair))


class Clustered(Conditional):
    """``known["clusters"]`` [B]: the images' clusters by their columns, or by equal values."""

    clusters: Annotated[int, Field(ge=2)] | None = None

    def prepare(self, source: Source) -> Ask:
        columns = self.columns(source)
        if self.clusters is None:
            values = distinct_values(source.config.data.manifest, columns, self.condition)
        else:
            fit = np.asarray([record.split == "train" for record in source.records])
            values = cluster(columns, fit, self.clusters, source.config.training.seed)
        values_of = by_name(source, values)
        return lambda drawn: {"clusters": values_of(drawn)[:, 0].long()}

    def turn_known(self, forward: Direction) -> Mapping[str, Any]:
        """Sentences are in their image's cluster."""
        return {"clusters": forward.known["clusters"][forward.positive]}

    def same(self, d: Direction) -> Tensor:
        """Where a candidate is in the anchor's cluster, [A, C]."""
        from cxrtext.objectives.contrastive import same_cluster

        return same_cluster(d.scores, d.known["clusters"], d.positive)


def cluster(
    columns: Columns, fit: np.ndarray[tuple[int], np.dtype[np.bool_]], clusters: int, seed: int
) -> Values:
    """The nearest cluster of each metadata row, [n, 1], by k-means on the training rows ``fit``.

    Each value of a category becomes a number, 1 or 0.
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
    # All processes, and a resumed run, must find the same clusters: so none may be empty (fewer
    # distinct rows than clusters), and one thread adds up in a fixed order.
    distinct = len(np.unique(z[fit], axis=0))
    with threadpool_limits(1):
        means = KMeans(min(clusters, distinct), n_init=1, random_state=seed).fit(z[fit])
        nearest = means.predict(z)
    return np.asarray(nearest[:, None], dtype=np.float32)


def distinct_values(manifest: Path, columns: Columns, names: Sequence[str]) -> Values:
    """Clusters [n, 1], one for each distinct row of metadata."""
    distinct, codes = np.unique(columns.values, axis=0, return_inverse=True)
    if len(distinct) > len(codes) / 2:
        raise DataError(
            f"{manifest}: {', '.join(names)} take {len(distinct)} different values in {len(codes)} "
            "rows, so hardly any two images share one; set objective.clusters"
        )
    return codes.reshape(-1, 1).astype(np.float32)
