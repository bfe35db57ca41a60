"""From the scores of a batch's views to losses: SimCLR with any objective that needs no text.

A batch of B images is seen in V = M + 1 views, M ``positives``; all views go through the encoder
together, and every view is scored against every other, γ² times the cosine.  Nothing scores
against itself.  Losses are those of :mod:`cxrtext.objectives`, averaged over anchors.

=================================== =============== ====================== =====================
objective                           anchors         candidates of each     positives of each
=================================== =============== ====================== =====================
info-nce, dcl-eta, dcl-eta-true,    all VB views    its M positives in     M: each in turn, the
hard-negative                                       turn, and all views of losses averaged
                                                    other images: N =      (``aggregate="loss"``)
                                                    V (B − 1)
dcl-eta, dcl-eta-true, M > 1,       as above        as above               each in turn; the
``aggregate="group"``                                                      estimate g holds the
                                                                           mean of all M
positive-debiased                   all VB views    N = V (B − 1), itself  M: POS eq. 16 ("loss")
                                                    with γ², its positives or all in P ("group")
supervised                          2B views        the other 2B − 1       views of its class
alignment-uniformity                2B views        views of its own turn  its fellow
weaksup-info-nce, weaksup-cclk,     B first views,  B views of the other   its fellow; the Gram
fair-info-nce, fair-cclk            then B second   turn                   matrix is of B images
hardneg-cclk                        as above        as above               its fellow; z is the
                                                                           anchors' embedding
y-aware,                            as above        as above: N = B, the   all, by the kernel;
conditional-alignment-uniformity                    diagonal included      its own included
=================================== =============== ====================== =====================

Where POS takes "all possible pairs" of the views of an image as anchor and positive, so do we.
At M = 1 and batch 128, N is 254.  With ``without_same_class`` the negatives of
the anchor's class are no candidates.  ``conditional-alignment-uniformity`` adds its one uniformity
to the alignment of each anchor.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from cxrtext import objectives
from cxrtext.config import (
    AlignmentUniformity,
    Clustered,
    DclEta,
    DclEtaTrue,
    HardnegCclk,
    ObjectiveSection,
    PositiveDebiased,
    Supervised,
)
from cxrtext.experiments.simclr.augmentation import SimclrSpec
from cxrtext.objectives.contrastive import positives_of_views
from cxrtext.objectives.debiasing import debiased_terms, mean_positive, positive_debiased_terms
from cxrtext.objectives.scores import split_rows
from cxrtext.training.losses.directions import (
    Direction,
    Terms,
    check_uniformity,
    check_weights,
    defined,
    joined,
    losses_of,
    needed,
)
from cxrtext.training.losses.metadata import Kernel, Kind, gram

FREE = ("save_every", "log_every")
"""Settings that a resumed run may have otherwise."""


@dataclass(frozen=True)
class ViewSet:
    """8-bit images [n, 1 or 3, H, W] in memory and what is known of them.

    ``labels`` [n], int64: classes, for supervised, and for removing negatives of the same class.
    ``eta`` [n], float32: the probability of each image's class, for dcl-eta-true.  ``metadata``
    [n, M], float32: standardized numbers and categories as whole numbers, a kind a column; or
    clusters in column 0, for weaksup-info-nce and fair-info-nce.
    """

    images: Tensor
    labels: Tensor | None = None
    eta: Tensor | None = None
    metadata: Tensor | None = None
    kinds: tuple[Kind, ...] = ()

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class ViewSettings:
    """How to train an encoder on views of images.

    The objective needs no text (the table above); encoder and width are those of
    :func:`~cxrtext.experiments.simclr.encoders.build_small_encoder`; ``head`` has the sizes of the
    projection head's linear maps, the last D, and batch norms where ``head_norm``.  ``gamma_sq``
    is γ², one over the temperature; fixed.  ``positives`` is M, views of an image beside the
    anchor: ``aggregate`` "loss" averages the losses with each as the positive, "group" takes all
    into the loss's estimate.  ``without_same_class`` leaves out negatives of the anchor's class.
    The optimizer is Adam with L2, or LARS with momentum 0.9; biases and norms do not decay.
    ``seed`` is of everything that is drawn; a state is saved and a line of ``metrics.jsonl``
    written every so many steps.
    """

    objective: ObjectiveSection
    encoder: str
    width: int
    head: tuple[int, ...]
    steps: int
    batch: int
    lr: float
    gamma_sq: float = 2.0
    positives: int = 1
    aggregate: Literal["loss", "group"] = "loss"
    without_same_class: bool = False
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    augmentation: SimclrSpec = field(default_factory=SimclrSpec)
    precision: str = "float32"
    seed: int = 0
    save_every: int = 1000
    log_every: int = 50
    head_norm: bool = False

    def deciding(self) -> dict[str, Any]:
        """What must be equal to resume a run, as nested numbers and texts."""
        plain = asdict(self) | {"objective": self.objective.model_dump(mode="json")}
        kept = {key: value for key, value in plain.items() if key not in FREE}
        listed: dict[str, Any] = json.loads(json.dumps(kept))  # tuples come back as lists
        return listed


BY_ANCHOR = ("info-nce", "dcl-eta", "dcl-eta-true", "hard-negative", "positive-debiased")
"""Objectives of single positives, which know several of them and the removal of negatives."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the B images of a batch: classes, class probabilities, metadata [B, M]."""

    labels: Tensor | None = None
    eta: Tensor | None = None
    metadata: Tensor | None = None


def view_losses(
    settings: ViewSettings,
    parts: Sequence[Kernel],
    scores: Tensor,
    embedded: Tensor,
    known: Known,
    gamma_sq: Tensor,
) -> Terms:
    """Losses of scores [VB, VB] (:func:`score_views`) and unit vectors [V, B, D], not averaged."""
    section = settings.objective
    if section.name in BY_ANCHOR:
        return _by_anchor(settings, scores, len(embedded), known, gamma_sq)
    if isinstance(section, Supervised):
        return _supervised(section, scores, known, gamma_sq)
    if isinstance(section, AlignmentUniformity):
        x, y = embedded
        return Terms(objectives.alignment_uniformity(x, y, weight=section.weight)[None])
    return _by_view(section, parts, scores, embedded, known, gamma_sq)


def _by_anchor(
    settings: ViewSettings, scores: Tensor, views: int, known: Known, gamma_sq: Tensor
) -> Terms:
    section, count = settings.objective, len(scores)
    columns = positives_of_views(count, views, scores.device)  # [VB, M]
    positive = scores.gather(1, columns)
    negative = scores.scatter(1, columns, -torch.inf)
    if settings.without_same_class:
        labels = needed(known.labels, section.name, "labels of the images").repeat(views)
        negative = negative.masked_fill(labels[:, None] == labels, -torch.inf)
    alone = torch.isneginf(negative).all(dim=1)
    eta = scores.new_zeros(count)
    if isinstance(section, DclEtaTrue):
        eta = needed(known.eta, section.name, "class probabilities of the images").repeat(views)
    if isinstance(section, PositiveDebiased):
        # A view scores γ² against itself.
        given = (positive, negative, gamma_sq, section.tau_plus, gamma_sq, settings.aggregate)
        return Terms(*positive_debiased_terms(*given), alone)
    found = []
    for m in range(views - 1):
        one = negative.scatter(1, columns[:, m : m + 1], positive[:, m : m + 1])
        anchors = Direction(one, columns[:, m], eta, gamma_sq)
        if settings.aggregate == "group" and views > 2:
            found.append(_grouped(section, anchors, positive))
        else:
            found.append(losses_of(section, anchors))
    return replace(_averaged(found), without_negatives=alone)


def _grouped(section: ObjectiveSection, anchors: Direction, positive: Tensor) -> Terms:
    eta = section.eta if isinstance(section, DclEta) else anchors.eta
    rows = split_rows(anchors.scores, anchors.positive)
    shared = mean_positive(rows.positive, positive)
    return Terms(*debiased_terms(rows, eta, anchors.gamma_sq, shared))


def _averaged(found: Sequence[Terms]) -> Terms:
    """The mean over positives; an anchor is floored where it is for one of them."""
    losses = torch.stack([terms.losses for terms in found]).mean(dim=0)
    floored = [terms.floored for terms in found if terms.floored is not None]
    return Terms(losses, torch.stack(floored).any(dim=0) if floored else None)


def _supervised(section: ObjectiveSection, scores: Tensor, known: Known, gamma_sq: Tensor) -> Terms:
    labels = needed(known.labels, section.name, "labels of the images").repeat(2)
    positive = positives_of_views(len(scores), 2, scores.device)[:, 0]
    same = labels[:, None] == labels
    eta = scores.new_zeros(len(scores))
    return losses_of(section, Direction(scores, positive, eta, gamma_sq, same=same))


def _by_view(
    section: ObjectiveSection,
    parts: Sequence[Kernel],
    scores: Tensor,
    embedded: Tensor,
    known: Known,
    gamma_sq: Tensor,
) -> Terms:
    if isinstance(section, HardnegCclk) and not bool(torch.isfinite(embedded).all()):
        # Diverged: a loss that is no number, as other objectives give, not a kernel's complaint.
        return Terms(embedded.sum()[None] * torch.nan)
    B = embedded.shape[1]
    diagonal = torch.arange(B, device=scores.device)
    forward = Direction(scores[:B, B:], diagonal, scores.new_zeros(B), gamma_sq)
    back = replace(forward, scores=scores[B:, :B])
    if isinstance(section, Clustered):
        clusters = needed(known.metadata, section.name, "clusters of the images")[:, 0].long()
        forward, back = (replace(d, clusters=clusters) for d in (forward, back))
        return joined([losses_of(section, forward), losses_of(section, back)])
    with defined(section):
        if isinstance(section, HardnegCclk):
            grams = [gram(view.detach(), parts) for view in embedded]
        else:
            grams = [gram(needed(known.metadata, section.name, "metadata"), parts)] * 2
        for kernel in grams:
            check_weights(section, kernel)
            check_uniformity(section, kernel)
        directions = zip((forward, back), grams, strict=True)
        return joined([losses_of(section, replace(d, kernel=kernel)) for d, kernel in directions])
