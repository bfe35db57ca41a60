"""The losses of anchors against candidates, in one direction, by the name of the objective."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from cxrtext import objectives
from cxrtext.config import (
    Clustered,
    ConditionalAlignmentUniformity,
    DclEta,
    DclEtaLm,
    DclEtaTrue,
    FairCclk,
    HardNegative,
    HardnegCclk,
    InfoNce,
    ObjectiveSection,
    PositiveDebiased,
    RemoveByLabels,
    RemoveByText,
    ResampleByText,
    ReweightByText,
    Supervised,
    WeaksupCclk,
    YAware,
)
from cxrtext.errors import WorkError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Direction:
    """Anchors in rows, candidates in columns, and what is known of them.

    Args:
        scores: [A, C], scaled by γ²; −inf is no candidate.
        positive: [A], the column of each anchor's positive.
        eta: [A], class probability of each anchor's sentence.
        gamma_sq: γ².
        same: [A, C], where findings are shared.
        similarity: [A, C], cosines of texts.
        clusters: [C], the candidates' clusters.
        kernel: [C, C], Gram matrix of the candidates.
        generator: Draws negatives.
    """

    scores: Tensor
    positive: Tensor
    eta: Tensor
    gamma_sq: Tensor
    same: Tensor | None = None
    similarity: Tensor | None = None
    clusters: Tensor | None = None
    kernel: Tensor | None = None
    generator: torch.Generator | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """Each [A]: losses, whether at a floor, and whether every negative was removed."""

    losses: Tensor
    floored: Tensor | None = None
    without_negatives: Tensor | None = None


def losses_of(section: ObjectiveSection, d: Direction) -> Terms:
    """The objective's losses, with what is worth logging of them.

    Raises:
        ValueError: What the objective needs is missing or does not fit, or metadata are such that
            the loss is not defined.
    """
    return _FAMILIES[section.name](section, d)


def needed(value: T | None, name: str, what: str) -> T:
    """A value that the objective cannot do without.

    Raises:
        ValueError: It is None.
    """
    if value is None:
        raise ValueError(f"{name} needs {what}; see gather_extras")
    return value


@contextmanager
def defined(section: ObjectiveSection) -> Iterator[None]:
    """Say which key to change where the metadata that met in a batch leave a loss undefined."""
    try:
        yield
    except ValueError as error:
        raise WorkError(
            f"objective.name: {section.name} is not defined on a batch: {error}; raise "
            "training.batch, or change objective.kernel or objective.condition"
        ) from None


def _info_nce(_: InfoNce, d: Direction) -> Terms:
    return Terms(objectives.info_nce(d.scores, d.positive))


def _debiased(section: DclEta | DclEtaLm | DclEtaTrue, d: Direction) -> Terms:
    eta = section.eta if isinstance(section, DclEta) else d.eta
    losses = objectives.debiased(d.scores, eta, d.gamma_sq, positive=d.positive)
    floored = objectives.debiased_clamped(d.scores, eta, d.gamma_sq, positive=d.positive)
    return Terms(losses, floored)


def _hard_negative(section: HardNegative, d: Direction) -> Terms:
    given = (d.scores, section.tau_plus, section.beta, d.gamma_sq, d.positive)
    return Terms(objectives.hard_negative(*given), objectives.hard_negative_clamped(*given))


def _positive_debiased(section: PositiveDebiased, d: Direction) -> Terms:
    column = d.positive[:, None]
    positive = d.scores.gather(1, column)
    negative = d.scores.scatter(1, column, -torch.inf)
    # An anchor scores γ² against itself: embeddings are unit vectors before they are scaled.
    given = (positive, negative, d.gamma_sq, section.tau_plus, d.gamma_sq)
    return Terms(objectives.positive_debiased(*given), objectives.positive_debiased_clamped(*given))


def _removed(section: RemoveByLabels | RemoveByText, d: Direction) -> Terms:
    if isinstance(section, RemoveByLabels):
        same = needed(d.same, section.name, "labels of the images' studies")
    else:
        similarity = needed(d.similarity, section.name, "text vectors of the sentences")
        same = objectives.remove_by_text(similarity, section.threshold)
    losses = objectives.remove_negatives(d.scores, same, d.positive)
    return Terms(losses, without_negatives=objectives.without_negatives(d.scores, d.positive, same))


def _resampled(section: ResampleByText, d: Direction) -> Terms:
    similarity = needed(d.similarity, section.name, "text vectors of the sentences")
    if d.generator is None:
        raise ValueError(f"{section.name} needs a generator that follows from the seed and step")
    return Terms(
        objectives.resample_negatives(
            d.scores, similarity, section.keep, section.beta, d.generator, d.positive
        )
    )


def _reweighted(section: ReweightByText, d: Direction) -> Terms:
    similarity = needed(d.similarity, section.name, "text vectors of the sentences")
    return Terms(objectives.reweight_negatives(d.scores, similarity, section.beta, d.positive))


def _supervised(section: Supervised, d: Direction) -> Terms:
    same = needed(d.same, section.name, "labels of the images' studies")
    return Terms(objectives.supervised(d.scores, same, d.positive))


def _clustered(section: Clustered, d: Direction) -> Terms:
    clusters = needed(d.clusters, section.name, "clusters of the images")
    if section.name == "weaksup-info-nce":
        return Terms(objectives.weakly_supervised(d.scores, clusters, d.positive))
    others = clusters[d.positive][:, None] != clusters
    losses = objectives.fair(d.scores, clusters, d.positive)
    return Terms(
        losses, without_negatives=objectives.without_negatives(d.scores, d.positive, others)
    )


def _y_aware(section: YAware, d: Direction) -> Terms:
    kernel = needed(d.kernel, section.name, "metadata of the images")
    return Terms(objectives.y_aware(d.scores, kernel, d.positive))


def _conditional(section: ConditionalAlignmentUniformity, d: Direction) -> Terms:
    kernel = needed(d.kernel, section.name, "metadata of the images")
    alignment = objectives.conditional_alignment(d.scores, kernel, d.positive)
    try:
        uniformity = objectives.conditional_uniformity(d.scores, kernel, positive=d.positive)
    except ValueError:
        # A step must not go on without its repulsion; a small validation batch may be measured so.
        if d.scores.requires_grad:
            raise
        uniformity = d.scores.new_zeros(())
    return Terms(alignment + section.weight * uniformity)


def _cclk(section: WeaksupCclk | FairCclk | HardnegCclk, d: Direction) -> Terms:
    kernel = needed(d.kernel, section.name, "metadata of the images")
    loss = objectives.cclk_fair
    if section.name == "weaksup-cclk":
        loss = objectives.cclk_weakly_supervised
    floored = objectives.cclk_clamped(d.scores, kernel, section.ridge, d.positive)
    return Terms(loss(d.scores, kernel, section.ridge, d.positive), floored)


_FAMILIES: dict[str, Callable[[Any, Direction], Terms]] = {
    "info-nce": _info_nce,
    "dcl-eta": _debiased,
    "dcl-eta-lm": _debiased,
    "dcl-eta-true": _debiased,
    "hard-negative": _hard_negative,
    "positive-debiased": _positive_debiased,
    "remove-by-labels": _removed,
    "remove-by-text": _removed,
    "resample-by-text": _resampled,
    "reweight-by-text": _reweighted,
    "supervised": _supervised,
    "weaksup-info-nce": _clustered,
    "fair-info-nce": _clustered,
    "y-aware": _y_aware,
    "conditional-alignment-uniformity": _conditional,
    "weaksup-cclk": _cclk,
    "fair-cclk": _cclk,
    "hardneg-cclk": _cclk,  # is Fair-CCLK with the anchors' own embeddings as metadata
}
