"""From the scores of a batch's views to losses: SimCLR with any objective that needs no text.

Each of B images has V = M + 1 views, M ``positives``.  All views go through the encoder together,
and every view is scored against every other, γ² times the cosine, but never against itself.  Losses
are those of :mod:`cxrtext.objectives`, averaged over anchors.

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
fair-info-nce, fair-cclk            B first views,  B views of the other   its fellow
                                    then B second   turn
hardneg-cclk                        as above        as above               its fellow; z is the
                                                                           anchors' embedding
y-aware,                            as above        as above: N = B, the   all, by the kernel;
conditional-alignment-uniformity                    diagonal included      its own included
=================================== =============== ====================== =====================

Like POS, we use "all possible pairs" of an image's views as anchor and positive.  At M = 1 and
batch 128, N is 254.  With ``without_same_class``, negatives of the anchor's class are no
candidates.  ``conditional-alignment-uniformity`` adds its one uniformity to the alignment of each
anchor.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext import objectives
from cxrtext.experiments.augmentation import SimclrSpec

RIDGE = 0.1
"""λ of the kernel losses."""
FREE = ("save_every", "log_every")
"""Settings that may change when a run is resumed."""


@dataclass(frozen=True)
class ViewSettings:
    """How to train an encoder on views of images.

    ``objective`` is the name and the arguments of one that needs no text (the table above); encoder
    and width are those of :func:`~cxrtext.experiments.view_encoder.build_small_encoder`; ``head``
    has the sizes of the projection head's linear maps, the last one D, with batch norms if
    ``head_norm``.  ``gamma_sq`` is γ², one over the temperature; fixed.  ``positives`` is M, the
    views of an image besides the anchor: ``aggregate`` "loss" averages the losses with each as the
    positive, "group" puts all into the loss's estimate.  ``without_same_class`` leaves out
    negatives of the anchor's class.  The optimizer is Adam with L2, or LARS with momentum 0.9;
    biases and norms do not decay.  ``augmentation`` has differences from ``SimclrSpec``.  ``seed``
    is for all random draws.  A state is saved every ``save_every`` steps, and a line of
    ``metrics.jsonl`` is written every ``log_every`` steps.
    """

    objective: Mapping[str, Any]
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
    augmentation: Mapping[str, Any] = field(default_factory=dict)
    precision: str = "float32"
    seed: int = 0
    save_every: int = 1000
    log_every: int = 50
    head_norm: bool = False

    @property
    def views(self) -> SimclrSpec:
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in self.augmentation.items()
        }
        return SimclrSpec(**given)

    def deciding(self) -> dict[str, Any]:
        """The settings that must be equal to resume a run, as plain values."""
        plain = {key: value for key, value in asdict(self).items() if key not in FREE}
        listed: dict[str, Any] = json.loads(json.dumps(plain))  # turns tuples into lists
        return listed


@dataclass(frozen=True, slots=True)
class Known:
    """Classes, class probabilities and metadata [B, M] of the B images of a batch.

    Metadata are numbers, or codes if ``categories``; for fair-info-nce column 0 has clusters.
    """

    labels: Tensor
    metadata: Tensor
    categories: bool = False
    eta: Tensor | None = None


def score_views(embedded: Tensor, gamma_sq: float) -> tuple[Tensor, Tensor]:
    """Scores of all views against all, and the columns of each view's fellows.

    Unit vectors [V, B, D] -> float32 [VB, VB] with −inf on the diagonal and rows ordered by view,
    and [VB, V − 1].
    """
    views, images = embedded.shape[:2]
    flat, rows = embedded.flatten(0, 1), torch.arange(views * images, device=embedded.device)
    turns = torch.arange(1, views, device=embedded.device) * images
    scores = (gamma_sq * (flat @ flat.T)).fill_diagonal_(-torch.inf)
    return scores, (rows[:, None] + turns) % len(rows)


def view_losses(settings: ViewSettings, embedded: Tensor, known: Known) -> Tensor:
    """Losses for the unit vectors [V, B, D] of a batch, one for each anchor, or a scalar."""
    given = dict(settings.objective)
    name = given.pop("name")
    scores, fellows = score_views(embedded, settings.gamma_sq)
    labels = known.labels.repeat(len(embedded))
    same = labels[:, None] == labels
    if name in ("info-nce", "dcl-eta", "dcl-eta-true", "hard-negative", "positive-debiased"):
        eta = known.eta if name == "dcl-eta-true" else None
        return _by_anchor(settings, name, given, scores, fellows, same, eta)
    if name == "supervised":
        return objectives.supervised(scores, same, fellows[:, 0])
    if name == "alignment-uniformity":
        return objectives.alignment_uniformity(*embedded, **given)
    images = embedded.shape[1]
    turns = (scores[:images, images:], scores[images:, :images])
    return torch.cat(
        [_by_view(name, given, one, view, known) for one, view in zip(turns, embedded, strict=True)]
    )


def _by_anchor(
    settings: ViewSettings,
    name: str,
    given: Mapping[str, Any],
    scores: Tensor,
    fellows: Tensor,
    same: Tensor,
    eta: Tensor | None,
) -> Tensor:
    gamma_sq, grouped = settings.gamma_sq, settings.aggregate == "group"
    positive = scores.gather(1, fellows)  # [VB, M]
    negative = scores.scatter(1, fellows, -torch.inf)
    if settings.without_same_class:
        negative = negative.masked_fill(same, -torch.inf)
    if name == "positive-debiased":
        # A view scores γ² against itself.
        return objectives.positive_debiased(
            positive, negative, gamma_sq, given["tau_plus"], gamma_sq, settings.aggregate
        )
    losses = []
    for m in range(fellows.shape[1]):
        column = fellows[:, m]
        turn = negative.scatter(1, column[:, None], positive[:, m : m + 1])
        if name == "info-nce":
            losses.append(objectives.info_nce(turn, column))
        elif name == "hard-negative":
            losses.append(
                objectives.hard_negative(turn, gamma_sq=gamma_sq, positive=column, **given)
            )
        else:
            each = given["eta"] if eta is None else eta.repeat(len(scores) // len(eta))
            extra = positive if grouped and fellows.shape[1] > 1 else None
            losses.append(objectives.debiased(turn, each, gamma_sq, extra, column))
    return torch.stack(losses).mean(dim=0)


def _by_view(
    name: str, given: Mapping[str, Any], scores: Tensor, view: Tensor, known: Known
) -> Tensor:
    kernel = getattr(objectives.kernels, given.get("kernel", "rbf"))
    if name == "fair-info-nce":
        return objectives.fair(scores, known.metadata[:, 0].long())
    if name == "hardneg-cclk":
        return objectives.cclk_hard_negative(scores, view, RIDGE, kernel)
    compare = objectives.kernels.delta if known.categories else kernel
    weights = compare(known.metadata)
    if name == "fair-cclk":
        return objectives.cclk_fair(scores, weights, RIDGE)
    if name == "y-aware":
        return objectives.y_aware(scores, weights)
    alignment = objectives.conditional_alignment(scores, weights)
    return alignment + objectives.conditional_uniformity(scores, weights)


def floored(settings: ViewSettings, losses: Tensor, embedded: Tensor) -> Tensor:
    """The share of anchors with a debiased loss at its floor, ``log(1 + N e^{−γ²} / pos)``.

    It is 0 for other losses, and for M > 1.
    """
    debiased = settings.objective["name"] in ("dcl-eta", "dcl-eta-true")
    if not debiased or settings.positives > 1 or settings.without_same_class:
        return losses.new_zeros(())
    scores, fellows = score_views(embedded, settings.gamma_sq)
    count = torch.tensor(len(scores) - 2.0)
    at_floor = F.softplus(count.log() - settings.gamma_sq - scores.gather(1, fellows)[:, 0])
    return (losses <= at_floor * (1 + 1e-5)).float().mean()
