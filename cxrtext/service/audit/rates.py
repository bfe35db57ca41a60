"""How likely a disagreement is one, and how many of a list are none.

Reports dealt to other patients cannot be the null of a disagreement: an exchanged report is a draw
from just that null, so that no test against it finds one.  They are the alternative.  The null is
validation images beside their own reports.  Of n tests a share π are disagreements:
f = (1 − π) f₀ + π f₁, with the ratio f₁ / f₀ fitted to validation images, and π to the archive.

Source: Efron, Tibshirani, Storey and Tusher 2001 (the local false-discovery rate); Saerens, Latinne
and Decaestecker 2002 (π from posteriors); Newton et al. 2004 (the rate of a list is the mean of its
local ones).
"""

from math import log

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification.calibration import fit_logistic, logistic
from cxrtext.evaluation.metrics import Floats

SUPPOSED, TESTS = 0.01, 100
"""The share of disagreements that is supposed before anything is seen, as if by so many tests."""
ROUNDS = 500


def log_ratios(columns: Floats, sample: Floats, truth: NDArray[np.bool_]) -> Floats:
    """``log p(columns | true) / p(columns | false)`` of columns [n, k], fitted to a sample [m, k].

    0 where the sample lacks a class, and no larger than it can show: of m values none may lie
    where the ratio is large, and still one in m + 1 of all may (the least conformal p-value).

    Source: Platt 1999 (the targets of the fit).
    """
    true, false = int(truth.sum()), int((~truth).sum())
    if not true or not false:
        return np.zeros(len(columns))
    spread = np.maximum(sample.std(axis=0), 1e-9)
    design = np.column_stack([sample / spread, np.ones(len(sample))])
    *weights, shift = fit_logistic(
        design, np.where(truth, (true + 1) / (true + 2), 1 / (false + 2))
    )
    found = columns @ (np.array(weights) / spread) + shift - log(true / false)
    held: Floats = np.clip(found, -log(true + 1), log(false + 1))
    return held


def posteriors(ratios: Floats, free: NDArray[np.bool_]) -> Floats:
    """The probability [n] that each test is a disagreement, by log-ratios [n] that speak for one.

    π is that of the tests that are ``free`` of the fit: the maximum of its posterior, by
    expectation and maximization, from what is :data:`SUPPOSED`.
    """
    share = SUPPOSED
    for _ in range(ROUNDS):
        total = float(logistic(ratios[free] + log(share / (1 - share))).sum())
        before, share = share, (total + SUPPOSED * TESTS) / (int(free.sum()) + TESTS)
        if abs(share - before) < 1e-9:
            break
    return logistic(ratios + log(share / (1 - share)))


def q_values(probabilities: Floats) -> Floats:
    """The false-discovery rate [n] of the list of all that are at least as likely as each.

    >>> q_values(np.array([0.5, 0.9, 1.0])).round(2).tolist()
    [0.2, 0.05, 0.0]
    """
    order = np.argsort(-probabilities, kind="stable")
    found = np.empty(len(probabilities))
    found[order] = np.cumsum(1 - probabilities[order]) / np.arange(1, len(order) + 1)
    return found
