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
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from cxrtext import objectives
from cxrtext.images.simclr import SimclrSpec
from cxrtext.objectives.contrastive import positives_of_views
from cxrtext.objectives.debiasing import debiased_terms, mean_positive, positive_debiased_terms
from cxrtext.objectives.scores import split_rows
from cxrtext.training.objectives.hardneg_cclk import Objective as EmbeddingKernel
from cxrtext.training.objectives.shared.metadata import Kind, WithKernel, gram
from cxrtext.training.objectives.shared.objective import (
    Contrast,
    Direction,
    Objective,
    Terms,
    joined,
)

T = TypeVar("T")
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

    objective: Objective
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
    kinds: Sequence[Kind],
    scores: Tensor,
    embedded: Tensor,
    known: Known,
    gamma_sq: Tensor,
) -> Terms:
    """Losses of scores [VB, VB] (:func:`score_views`) and unit vectors [V, B, D], not averaged.

    ``kinds`` are those of the columns of metadata.
    """
    objective = settings.objective
    if objective.name == "alignment-uniformity":
        x, y = embedded
        weight = float(objective.model_dump()["weight"])
        return Terms(objectives.alignment_uniformity(x, y, weight=weight)[None])
    assert isinstance(objective, Contrast)  # noqa: S101 - the table above
    if objective.name in BY_ANCHOR:
        return _by_anchor(settings, objective, scores, len(embedded), known, gamma_sq)
    if objective.name == "supervised":
        return _supervised(objective, scores, known, gamma_sq)
    return _by_view(objective, kinds, scores, embedded, known, gamma_sq)


def _needed(value: T | None, name: str, what: str) -> T:
    if value is None:
        raise ValueError(f"{name} needs {what}")
    return value


def _by_anchor(
    settings: ViewSettings,
    objective: Contrast,
    scores: Tensor,
    views: int,
    known: Known,
    gamma_sq: Tensor,
) -> Terms:
    name, count = objective.name, len(scores)
    columns = positives_of_views(count, views, scores.device)  # [VB, M]
    positive = scores.gather(1, columns)
    negative = scores.scatter(1, columns, -torch.inf)
    if settings.without_same_class:
        labels = _needed(known.labels, name, "labels of the images").repeat(views)
        negative = negative.masked_fill(labels[:, None] == labels, -torch.inf)
    alone = torch.isneginf(negative).all(dim=1)
    eta = scores.new_full((count,), float(getattr(objective, "eta", 0.0)))
    if name == "dcl-eta-true":
        eta = _needed(known.eta, name, "class probabilities of the images").repeat(views)
    if name == "positive-debiased":
        # A view scores γ² against itself.
        tau_plus = float(objective.model_dump()["tau_plus"])
        given = (positive, negative, gamma_sq, tau_plus, gamma_sq, settings.aggregate)
        return Terms(*positive_debiased_terms(*given), alone)
    found = []
    for m in range(views - 1):
        one = negative.scatter(1, columns[:, m : m + 1], positive[:, m : m + 1])
        if settings.aggregate == "group" and views > 2:
            rows = split_rows(one, columns[:, m])
            shared = mean_positive(rows.positive, positive)
            found.append(Terms(*debiased_terms(rows, eta, gamma_sq, shared)))
        else:
            anchors = Direction(one, columns[:, m], eta, gamma_sq, {"eta": eta})
            found.append(objective.losses(anchors))
    return replace(_averaged(found), without_negatives=alone)


def _averaged(found: Sequence[Terms]) -> Terms:
    """The mean over positives; an anchor is floored where it is for one of them."""
    losses = torch.stack([terms.losses for terms in found]).mean(dim=0)
    floored = [terms.floored for terms in found if terms.floored is not None]
    return Terms(losses, torch.stack(floored).any(dim=0) if floored else None)


def _supervised(objective: Contrast, scores: Tensor, known: Known, gamma_sq: Tensor) -> Terms:
    labels = _needed(known.labels, objective.name, "labels of the images").repeat(2)
    positive = positives_of_views(len(scores), 2, scores.device)[:, 0]
    same = {"same": labels[:, None] == labels}
    eta = scores.new_zeros(len(scores))
    return objective.losses(Direction(scores, positive, eta, gamma_sq, same))


def _by_view(
    objective: Contrast,
    kinds: Sequence[Kind],
    scores: Tensor,
    embedded: Tensor,
    known: Known,
    gamma_sq: Tensor,
) -> Terms:
    B = embedded.shape[1]
    diagonal = torch.arange(B, device=scores.device)
    forward = Direction(scores[:B, B:], diagonal, scores.new_zeros(B), gamma_sq)
    back = replace(forward, scores=scores[B:, :B])
    views: list[dict[str, Any]]
    if isinstance(objective, EmbeddingKernel):
        views = [{"kernel": objective.gram(view)} for view in embedded]
    else:
        metadata = _needed(known.metadata, objective.name, "metadata of the images")
        if isinstance(objective, WithKernel):
            with objective.defined():
                kernel = gram(metadata, objective.compared(kinds))
            asked = {"kernel": kernel, **objective.check(kernel, diagonal)}
        else:
            asked = {"clusters": metadata[:, 0].long()}
        views = [asked, asked]
    directions = zip((forward, back), views, strict=True)
    return joined([objective.losses(replace(d, known=asked)) for d, asked in directions])
