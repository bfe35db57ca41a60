"""A head that marks of readers trained: what it adds to the scores of findings.

A finding's score z becomes ``scale · z + shift + w · m``, m being the image's mean region: one
logistic regression a finding on features that stay as they are, drawn to the model's own score.
It is kept with a checkpoint, whose regions, vectors and fingerprint stay, and goes by the prompts
that it was trained with, as a calibration does.

Scores z [n] are of :func:`~.prompt_scores.score_differences`, means [n, D] unit vectors, truth [n]
is 1 or 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from cxrtext.evaluation.classification.calibration import logistic
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.kept import Kept, KeptFile
from cxrtext.evaluation.metrics import Floats
from cxrtext.models import ImageTextModel

FOLDS = 5
STAY_CLOSE = 1.0
"""How strongly a head is drawn to the model's own scores, in marks: over the archive's films, whose
means have a variance of 1 in all, and whose scores one of 1."""
SHIFT, TINY, STEPS = 0.01, 1e-5, 500
"""The ridge of the shift, since how frequent a finding is among what was marked says nothing; and
where a fit ends."""
SHUFFLINGS, CHANCE = 199, 0.05
"""How often verdicts are shuffled, and how many of these trials may gain as much as the marks."""
LEAST = 100
"""Marks below which no head is tried."""


class FindingHead(Kept):
    scale: float
    shift: float
    weights: list[float]
    marks: int


class KeptHead(KeptFile):
    """The findings that marks improved; ``gain`` is that of :func:`gain_of`, in nats a mark."""

    FILE = "head.json"

    format: Literal["cxrtext head"] = "cxrtext head"
    version: Literal[1] = 1
    marks: int = Field(ge=1)
    gain: tuple[float, float]
    prompts: dict[str, Prompts]
    findings: dict[str, FindingHead]


@dataclass(frozen=True, slots=True)
class Head:
    """Of F findings: scale and shift [F, 1], weights [F, D]; the identity where none is kept."""

    scale: Tensor
    shift: Tensor
    weights: Tensor

    def __call__(self, scores: Tensor, regions: Tensor) -> Tensor:
        """Scores [F, B] of images with regions [B, N, D] after the head."""
        means = F.normalize(regions.float().mean(dim=1), dim=-1)
        place = scores.device
        found: Tensor = self.scale.to(place) * scores + self.shift.to(place)
        return found + (self.weights.to(means.device) @ means.T).to(place)


def head_of(
    model: ImageTextModel, prompts: Mapping[str, Prompts], kept: KeptHead | None = None
) -> Head | None:
    """The head of some prompts, of the model's checkpoint by default; None where it has none."""
    kept = KeptHead.beside(model) if kept is None else kept
    if kept is None:
        return None
    none = FindingHead(scale=1, shift=0, weights=[0.0] * model.spec.dimension, marks=0)
    found = [
        kept.findings.get(name, none) if kept.prompts.get(name) == asked else none
        for name, asked in prompts.items()
    ]
    return Head(
        torch.tensor([[one.scale] for one in found]),
        torch.tensor([[one.shift] for one in found]),
        torch.tensor([one.weights for one in found]),
    )


@dataclass(frozen=True, slots=True)
class Archived:
    """What the scores and the means of an archive's films are like, by which marks are scaled.

    Of a finding's scores mean and deviation; of the means [D] theirs, and their deviation in all.
    """

    center: float
    spread: float
    mean: Floats
    size: float

    @classmethod
    def of(cls, scores: Floats, means: Floats) -> "Archived":
        size = sqrt(float(means.var(axis=0).sum()))
        spread = float(scores.std())
        return cls(float(scores.mean()), spread or 1.0, means.mean(axis=0), size or 1.0)

    def scaled(self, scores: Floats, means: Floats) -> tuple[Floats, Floats]:
        return (scores - self.center) / self.spread, (means - self.mean) / self.size


def fit_head(scores: Floats, means: Floats, truth: Floats, among: Archived) -> FindingHead:
    """Fit a head by the log-loss of marks and a ridge that holds it close to the score."""
    z, x = among.scaled(scores, means)
    found = np.concatenate([[1.0], _fit(np.column_stack([z, x]), z, truth[None])[0]])
    scale, weights = (1 + found[1]) / among.spread, found[2:-1] / among.size
    shift = found[-1] - scale * among.center - weights @ among.mean
    return FindingHead(
        scale=float(scale), shift=float(shift), weights=weights.tolist(), marks=len(truth)
    )


def apply_head(head: FindingHead, scores: Floats, means: Floats) -> Floats:
    added: Floats = means @ np.asarray(head.weights)
    return head.scale * scores + head.shift + added


def _fit(design: Floats, offset: Floats, truth: Floats) -> Floats:
    """Coefficients [P, k + 1], the shift last, of P truths [P, n] on a design [n, k].

    In the span of the n rows, outside of which a ridge leaves nothing; by steps of a bound of the
    curvature, which is one for all truths and cannot overshoot.

    Source: Böhning and Lindsay 1988.
    """
    if not design.shape[1]:
        return _ascend(design, offset, truth)
    _, sizes, turned = np.linalg.svd(design, full_matrices=False)
    turned = turned[sizes > TINY * sizes.max(initial=0)]
    found = _ascend(design @ turned.T, offset, truth)
    return np.column_stack([found[:, :-1] @ turned, found[:, -1]])


def _ascend(design: Floats, offset: Floats, truth: Floats) -> Floats:
    a = np.column_stack([design, np.ones(len(design))])
    held = np.array([STAY_CLOSE] * design.shape[1] + [SHIFT])
    bound = np.linalg.inv(a.T @ a / 4 + np.diag(held))
    at = np.zeros((len(truth), a.shape[1]))
    for _ in range(STEPS):
        step = ((logistic(offset + at @ a.T) - truth) @ a + at * held) @ bound
        at -= step
        if np.abs(step).max(initial=0.0) < TINY:
            break
    return at


def held_out_gains(
    scores: Floats, means: Floats, truth: Floats, patients: Sequence[str], among: Archived
) -> Floats:
    """By how many nats a head foretells each mark better than the model's own score, [P, n].

    Of P truths [P, n].  Each mark is foretold by a head, and by a scale and shift of the score
    alone, that were fitted on marks of other patients.
    """
    z, x = among.scaled(scores, means)
    who, codes = np.unique(np.asarray(patients), return_inverse=True)
    folds = np.random.default_rng(0).permutation(len(who))[codes] % FOLDS
    gains = np.zeros(truth.shape)
    for fold in set(folds.tolist()):
        out = folds == fold
        losses = []
        for design in (z[:, None], np.column_stack([z, x])):
            found = _fit(design[~out], z[~out], truth[:, ~out])
            score = z[out] + found[:, :-1] @ design[out].T + found[:, -1:]
            losses.append(np.logaddexp(0.0, score) - truth[:, out] * score)
        gains[:, out] = losses[0] - losses[1]
    return gains


def shuffled(truth: Floats, seed: int = 0) -> Floats:
    """A truth [n], and below it as it is when verdicts are shuffled among its marks, [P, n]."""
    others = np.tile(truth, (SHUFFLINGS, 1))
    return np.concatenate([truth[None], np.random.default_rng(seed).permuted(others, axis=1)])


def gain_of(gains: Floats) -> tuple[float, float]:
    """The mean gain of marks [P, n], and the share of shufflings, and itself, that gain as much."""
    means = gains.mean(axis=1)
    return float(means[0]), float((means >= means[0]).mean())
