"""The losses of anchors against candidates, in one direction, by the name of the objective.

Nothing here reads a value from the device: what can be refused is refused before, by the
``check_`` functions, on the CPU.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from cxrtext.config import (
    Cclk,
    Clustered,
    ConditionalAlignmentUniformity,
    DclEta,
    DclEtaLm,
    DclEtaTrue,
    HardNegative,
    HardnegCclk,
    InfoNce,
    ObjectiveSection,
    PositiveDebiased,
    RemoveByLabels,
    RemoveByReport,
    RemoveByText,
    RemoveByTruth,
    ResampleByText,
    ReweightByText,
    Supervised,
    YAware,
)
from cxrtext.errors import WorkError
from cxrtext.objectives import kernels
from cxrtext.objectives.conditional import (
    cclk_terms,
    check_repulsion,
    check_shares,
    conditional_alignment_terms,
    conditional_uniformity_terms,
    conditional_weights,
    weights_of,
    y_aware_terms,
)
from cxrtext.objectives.contrastive import (
    info_nce_terms,
    removed_terms,
    resampled,
    reweighted_terms,
    same_cluster,
    supervised_terms,
)
from cxrtext.objectives.debiasing import (
    debiased_terms,
    hard_negative_terms,
    positive_debiased_terms,
)
from cxrtext.objectives.scores import rows_of
from cxrtext.training.losses.metadata import Kernel

T = TypeVar("T")
TEXTS = "text vectors of the sentences"


@dataclass(frozen=True, slots=True)
class Direction:
    """Anchors in rows, candidates in columns, and what is known of them."""

    scores: Tensor  # [A, C], scaled by γ²; −inf is no candidate
    positive: Tensor  # [A], the column of each anchor's positive
    eta: Tensor  # [A], class probability of each anchor's sentence
    gamma_sq: Tensor
    # [A, C], where findings are shared, or the sentence is true of the image
    same: Tensor | None = None
    similarity: Tensor | None = None  # [A, C], cosines of texts
    clusters: Tensor | None = None  # [C], the candidates' clusters
    kernel: Tensor | None = None  # [C, C], Gram matrix of the candidates
    generator: torch.Generator | None = None  # draws negatives


@dataclass(frozen=True, slots=True)
class Terms:
    """What an objective makes of anchors, each [A].

    Losses in nats, to be averaged; of both directions, weighted so that they count the same.
    ``floored`` is whether a debiased loss is at its floor, ``without_negatives`` whether the
    objective removed every negative; None for other objectives.  ``advice`` is for where no anchor
    has a negative.
    """

    losses: Tensor
    floored: Tensor | None = None
    without_negatives: Tensor | None = None
    advice: str = ""

    def measures(self) -> list[Tensor]:
        """The share of floored anchors, and the number of those without a negative."""
        zero = self.losses.new_zeros(())
        return [
            zero if self.floored is None else self.floored.float().mean(),
            zero if self.without_negatives is None else self.without_negatives.float().sum(),
        ]


def needed(value: T | None, name: str, what: str) -> T:
    """A value that the objective cannot do without."""
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


def check_weights(section: ObjectiveSection, weights: Tensor) -> None:
    """Refuse weights [A, C] with which a loss of alignment is not defined."""
    if isinstance(section, YAware | ConditionalAlignmentUniformity):
        with defined(section):
            check_shares(weights)


def check_uniformity(section: ObjectiveSection, weights: Tensor) -> None:
    """Refuse weights [A, C] with which uniformity is not defined."""
    if isinstance(section, ConditionalAlignmentUniformity):
        with defined(section):
            check_repulsion(weights, weights.shape[1])


def hard_sentences(
    section: HardnegCclk,
    kernel: Kernel,
    forward: Direction,
    texts: Tensor,
    rounds: Sequence[Tensor],
) -> Terms:
    """HardNeg-CCLK of sentences, z of each anchor being its own embedding.

    An image's candidate has the z of a sentence of its own, so the first, the second … sentences
    of the images are taken in turn.
    """
    image_of, own = forward.positive, texts.detach()
    parts = []
    for anchors in rounds:
        z = own[: forward.scores.shape[1]].index_copy(0, image_of[anchors], own[anchors])
        part = replace(
            forward,
            scores=forward.scores[anchors],
            positive=image_of[anchors],
            eta=forward.eta[anchors],
            kernel=kernels.gram(kernel.name, z, kernel.sigma),
        )
        parts.append(losses_of(section, part))
    order = torch.cat(list(rounds)).argsort()
    floored = [needed(part.floored, section.name, "floors") for part in parts]
    return Terms(torch.cat([part.losses for part in parts])[order], torch.cat(floored)[order])


def image_anchors(forward: Direction) -> Direction:
    """The other direction: images are the anchors of their first sentence.

    The other sentences of an image are no candidates.  Where a kernel compares candidates, they
    are the first sentences alone, one an image, so that it stays the images' own.
    """
    B = forward.scores.shape[1]
    first = torch.arange(B, device=forward.scores.device)
    if forward.kernel is not None:
        scores = forward.scores[:B].T
        return Direction(scores, first, forward.eta[:B], forward.gamma_sq, kernel=forward.kernel)
    others = forward.positive[:, None] == first
    others[first, first] = False
    return Direction(
        scores=forward.scores.masked_fill(others, -torch.inf).T,
        positive=first,
        eta=forward.eta[:B],
        gamma_sq=forward.gamma_sq,
        same=None if forward.same is None else forward.same.T,
        similarity=None if forward.similarity is None else forward.similarity.T,
        clusters=None if forward.clusters is None else forward.clusters[forward.positive],
        generator=forward.generator,
    )


def joined(terms: Sequence[Terms], advice: str = "") -> Terms:
    """One or both directions as one, which weigh the same whatever their sizes."""
    total = sum(len(part.losses) for part in terms)
    floored = [part.floored for part in terms if part.floored is not None]
    alone = [part.without_negatives for part in terms if part.without_negatives is not None]
    return Terms(
        torch.cat([part.losses * (total / (len(terms) * len(part.losses))) for part in terms]),
        torch.cat(floored) if floored else None,
        torch.cat(alone) if alone else None,
        advice,
    )


def losses_of(section: ObjectiveSection, d: Direction) -> Terms:
    """The objective's losses in one direction, with what is worth logging of them."""
    name = section.name
    match section:
        case InfoNce():
            return Terms(info_nce_terms(rows_of(d.scores, d.positive)))
        case DclEta() | DclEtaLm() | DclEtaTrue():
            eta = section.eta if isinstance(section, DclEta) else d.eta
            return Terms(*debiased_terms(rows_of(d.scores, d.positive), eta, d.gamma_sq))
        case HardNegative():
            rows = rows_of(d.scores, d.positive)
            return Terms(*hard_negative_terms(rows, section.tau_plus, section.beta, d.gamma_sq))
        case PositiveDebiased():
            column = d.positive[:, None]
            positive = d.scores.gather(1, column)
            negative = d.scores.scatter(1, column, -torch.inf)
            # An anchor scores γ² against itself: embeddings are unit vectors before the scaling.
            given = (positive, negative, d.gamma_sq, section.tau_plus, d.gamma_sq)
            return Terms(*positive_debiased_terms(*given))
        case RemoveByText():
            return _removed(d, needed(d.similarity, name, TEXTS) > section.threshold)
        case RemoveByLabels() | RemoveByReport() | RemoveByTruth():
            return _removed(d, needed(d.same, name, "what tells where sentences are true"))
        case ResampleByText():
            similarity = needed(d.similarity, name, TEXTS)
            if d.generator is None:
                raise ValueError(f"{name} needs a generator that follows from the seed and step")
            draws = (section.keep, section.beta, d.generator, d.positive)
            scores = resampled(d.scores, similarity, *draws)
            return Terms(info_nce_terms(rows_of(scores, d.positive)))
        case ReweightByText():
            similarity = needed(d.similarity, name, TEXTS)
            return Terms(reweighted_terms(rows_of(d.scores, d.positive), similarity, section.beta))
        case Supervised():
            same = needed(d.same, name, "labels of the images' studies")
            return Terms(supervised_terms(d.scores, same, d.positive))
        case Clustered():
            clusters = needed(d.clusters, name, "clusters of the images")
            same = same_cluster(d.scores, clusters, d.positive)
            if name == "weaksup-info-nce":
                return Terms(supervised_terms(d.scores, same, d.positive))
            return _removed(d, ~same)
    kernel = needed(d.kernel, name, "metadata of the images")
    if isinstance(section, Cclk | HardnegCclk):
        # HardNeg-CCLK is Fair-CCLK with the anchors' own embeddings as metadata.
        solved, fair = conditional_weights(kernel, section.ridge), name != "weaksup-cclk"
        return Terms(*cclk_terms(d.scores, solved, d.positive, fair=fair))
    weights = weights_of(kernel, d.positive)
    if isinstance(section, ConditionalAlignmentUniformity):
        alignment = conditional_alignment_terms(d.scores, weights)
        return Terms(alignment + section.weight * conditional_uniformity_terms(d.scores, weights))
    return Terms(y_aware_terms(d.scores, weights))


def _removed(d: Direction, same: Tensor) -> Terms:
    losses, alone = removed_terms(d.scores, same, d.positive)
    return Terms(losses, without_negatives=alone)
