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
from cxrtext.evaluation.intervals.quantiles import quantile
from cxrtext.evaluation.kept import Kept, KeptFile
from cxrtext.evaluation.metrics import Floats
from cxrtext.models import ImageTextModel

FOLDS = 5
STAY_CLOSE = 3.0
"""How strongly a head is drawn to the model's own scores, in marks: over the archive's films, whose
means have a variance of 1 in all, and whose scores one of 1."""
LEAST = 100
"""Marks below which no head is tried."""


class FindingHead(Kept):
    scale: float
    shift: float
    weights: list[float]
    marks: int


class KeptHead(KeptFile):
    """The findings that marks improved; ``gain`` is in nats a mark held out, with its interval."""

    FILE = "head.json"

    format: Literal["cxrtext head"] = "cxrtext head"
    version: Literal[1] = 1
    marks: int = Field(ge=1)
    gain: tuple[float, float, float]
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


def fit_head(scores: Floats, means: Floats, truth: Floats, among: Archived) -> FindingHead:
    """Fit a head by the log-loss of marks, of both classes, and a ridge that holds it close."""
    z = (scores - among.center) / among.spread
    found = _fit(z, (means - among.mean) / among.size, truth)
    scale, weights = found[0] / among.spread, found[2:] / among.size
    shift = found[1] - scale * among.center - weights @ among.mean
    return FindingHead(
        scale=float(scale), shift=float(shift), weights=weights.tolist(), marks=len(truth)
    )


def apply_head(head: FindingHead, scores: Floats, means: Floats) -> Floats:
    added: Floats = means @ np.asarray(head.weights)
    return head.scale * scores + head.shift + added


def _fit(z: Floats, x: Floats, truth: Floats) -> Floats:
    """Scale, shift and weights [2 + D] of scores and features; D may be 0."""
    from scipy.optimize import minimize

    design = np.column_stack([z, np.ones_like(z), x])
    start = np.zeros(design.shape[1])
    start[0] = 1.0
    held = np.full(len(start), STAY_CLOSE)
    held[1] = 0.0  # how frequent a finding is among what was marked says nothing

    def loss(at: Floats) -> tuple[float, Floats]:
        score, away = design @ at, at - start
        value = float((np.logaddexp(0.0, score) - truth * score).sum())
        slope = design.T @ (logistic(score) - truth)
        return value + float(held @ away**2) / 2, slope + held * away

    best: Floats = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return best


def held_out_gains(
    scores: Floats,
    means: Floats,
    truth: Floats,
    patients: Sequence[str],
    among: Archived,
    seed: int = 0,
) -> Floats:
    """By how many nats a head foretells each mark better than the model's own score, [n].

    Each is foretold by a head, and by a scale and shift of the score alone, that were fitted on
    marks of other patients; NaN where these are of one class.
    """
    z, x = (scores - among.center) / among.spread, (means - among.mean) / among.size
    who, codes = np.unique(np.asarray(patients), return_inverse=True)
    folds = np.random.default_rng(seed).permutation(len(who))[codes] % FOLDS
    gains = np.full(len(truth), np.nan)
    for fold in range(FOLDS):
        out = folds == fold
        if not out.any() or len(set(truth[~out].tolist())) < 2:
            continue
        losses = []
        for features in (x[:, :0], x):
            found = _fit(z[~out], features[~out], truth[~out])
            score = found[0] * z[out] + found[1] + features[out] @ found[2:]
            losses.append(np.logaddexp(0.0, score) - truth[out] * score)
        gains[out] = losses[0] - losses[1]
    return gains


def mean_of_patients(values: Floats, patients: Sequence[str]) -> tuple[float, float, float]:
    """A mean with its 95 % interval, by the sums of patients; two of them at least."""
    who, codes = np.unique(np.asarray(patients), return_inverse=True)
    mean, groups = float(values.mean()), len(who)
    sums = np.bincount(codes, values - mean)
    error = sqrt(float((sums**2).sum()) * groups / (groups - 1)) / len(values)
    reach = quantile(0.95, groups - 1) * error
    return mean, mean - reach, mean + reach
