"""The papers' formulas as plain loops over Python floats: what the tests and the benchmark trust.

``log`` of ``(pos + neg) / pos`` is written ``log1p(neg / pos)``, because ``log`` of a number near 1
loses small losses even in float64.  −inf is not a candidate.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

Rows = Sequence[Sequence[float]]
Columns = Sequence[int] | None


def _rows(scores: Tensor) -> Rows:
    rows: Rows = scores.detach().double().tolist()
    return rows


def _each(scores: Tensor, positive: Columns) -> Iterator[tuple[int, Sequence[float], int]]:
    """The place of each row, the row, and the column of its positive."""
    places = range(len(scores))
    return zip(places, _rows(scores), places if positive is None else positive, strict=True)


def _negatives(row: Sequence[float], positive: int) -> list[int]:
    return [j for j, s in enumerate(row) if j != positive and s > -math.inf]


def _alike(row: Sequence[float], weights: Sequence[float]) -> tuple[list[int], int, float]:
    """The candidates of a row, how many they are, and their mean weight."""
    candidates = [j for j, s in enumerate(row) if s > -math.inf]
    return candidates, len(candidates), sum(weights[j] for j in candidates) / len(candidates)


def _sum(values: Sequence[float]) -> float:
    return sum(map(math.exp, values))


def info_nce(scores: Tensor, positive: Columns = None) -> list[float]:
    return [
        math.log1p(_sum([row[j] for j in _negatives(row, p)]) / math.exp(row[p]))
        for _, row, p in _each(scores, positive)
    ]


def debiased(
    scores: Tensor,
    eta: Sequence[float],
    gamma_sq: float,
    extra: Tensor | None = None,
    positive: Columns = None,
) -> list[float]:
    """SSD eq. 6-8."""
    losses = []
    for i, row, p in _each(scores, positive):
        negatives = [row[j] for j in _negatives(row, p)]
        n, own = len(negatives), [row[p]] if extra is None else extra[i].tolist()
        g = (_sum(negatives) / n - eta[i] * _sum(own) / len(own)) / (1 - eta[i])
        losses.append(math.log1p(n * max(g, math.exp(-gamma_sq)) / math.exp(row[p])))
    return losses


def remove_negatives(scores: Tensor, same: Tensor, positive: Columns = None) -> list[float]:
    marked = same.tolist()
    return [
        math.log1p(
            _sum([row[j] for j in _negatives(row, p) if not marked[i][j]]) / math.exp(row[p])
        )
        for i, row, p in _each(scores, positive)
    ]


def reweight_negatives(
    scores: Tensor, similarity: Tensor, beta: float, positive: Columns = None
) -> list[float]:
    losses = []
    cosines = _rows(similarity)
    for i, row, p in _each(scores, positive):
        weights = {j: math.exp(-beta * cosines[i][j]) for j in _negatives(row, p)}
        mean = sum(weights.values()) / len(weights)
        neg = sum(w / mean * math.exp(row[j]) for j, w in weights.items())
        losses.append(math.log1p(neg / math.exp(row[p])))
    return losses


def hard_negative(
    scores: Tensor, tau_plus: float, beta: float, gamma_sq: float, positive: Columns = None
) -> list[float]:
    losses = []
    for _, row, p in _each(scores, positive):
        pos = math.exp(row[p])
        negatives = [row[j] for j in _negatives(row, p)]
        mean = _sum([beta * s for s in negatives]) / len(negatives)
        neg = sum(math.exp(beta * s) / mean * math.exp(s) for s in negatives)
        g = (neg / len(negatives) - tau_plus * pos) / (1 - tau_plus)
        losses.append(math.log1p(len(negatives) * max(g, math.exp(-gamma_sq)) / pos))
    return losses


def positive_debiased(
    positive: Tensor,
    negative: Tensor,
    self_score: float,
    tau_plus: float,
    gamma_sq: float,
    aggregate: str,
) -> list[float]:
    """POS eq. 12-16; P − τ⁻P⁻ is written with each term once, as float64 would cancel."""
    losses = []
    tau_minus = 1 - tau_plus
    for v_row, u_row in zip(_rows(positive), _rows(negative), strict=True):
        n = len(u_row)
        groups = [list(v_row)] if aggregate == "group" else [[v] for v in v_row]
        total = 0.0
        for group in groups:
            minus = _sum(u_row) / n
            p = _sum([*u_row, *group, self_score]) / (n + len(group) + 1)
            numerator = max(p - tau_minus * minus, tau_plus * math.exp(-gamma_sq))
            total += math.log1p(n * tau_plus * minus / numerator)
        losses.append(total / len(groups))
    return losses


def supervised(scores: Tensor, same: Tensor, positive: Columns = None) -> list[float]:
    """SupCon: the mean over P of −log of the share of e^{s_ip}."""
    losses = []
    marked = same.tolist()
    for i, row, own in _each(scores, positive):
        candidates = [j for j, s in enumerate(row) if s > -math.inf]
        members = [j for j in candidates if marked[i][j] or j == own]
        total = 0.0
        for p in members:
            others = [row[j] for j in candidates if j != p]
            total += math.log1p(_sum(others) / math.exp(row[p]))
        losses.append(total / len(members))
    return losses


def alignment_uniformity(
    x: Tensor, y: Tensor, alpha: float, t: float, weight: float
) -> list[float]:
    rows = len(x)
    align = sum(math.dist(a, b) ** alpha for a, b in zip(_rows(x), _rows(y), strict=True)) / rows
    uniform = 0.0
    for z in (_rows(x), _rows(y)):
        pairs = [(i, j) for i in range(rows) for j in range(rows) if i != j]
        mean = sum(math.exp(-t * math.dist(z[i], z[j]) ** 2) for i, j in pairs) / len(pairs)
        uniform += math.log(mean) / 2
    return [align + weight * uniform]


def y_aware(scores: Tensor, kernel: Tensor, positive: Columns = None) -> list[float]:
    """CAU eq. 1; N is the number of candidates."""
    losses = []
    gram = _rows(kernel)
    for _, row, p in _each(scores, positive):
        candidates, n, z = _alike(row, gram[p])
        mean = _sum([row[j] for j in candidates]) / n
        losses.append(-sum(gram[p][k] / z * (row[k] - math.log(mean)) for k in candidates) / n)
    return losses


def conditional_alignment(scores: Tensor, kernel: Tensor, positive: Columns = None) -> list[float]:
    losses = []
    gram = _rows(kernel)
    for _, row, p in _each(scores, positive):
        candidates, n, z = _alike(row, gram[p])
        losses.append(-sum(gram[p][k] / z * row[k] for k in candidates) / n)
    return losses


def conditional_uniformity(
    scores: Tensor, kernel: Tensor, supremum: float, positive: Columns = None
) -> list[float]:
    """CAU below eq. 4; (1/N²) is one mean over anchors of one over candidates."""
    total = 0.0
    gram = _rows(kernel)
    for _, row, p in _each(scores, positive):
        candidates, n, z = _alike(row, gram[p])
        for j in candidates:
            total += (supremum - gram[p][j]) / (supremum - z) * math.exp(row[j]) / n
    return [math.log(total / len(scores))]


def _conditional(row: Sequence[float], weights: np.ndarray, p: int) -> float:
    """C_ii as the sum over all j, with its floor."""
    given = sum(math.exp(s) * float(weights[j, p]) for j, s in enumerate(row) if s > -math.inf)
    return max(given, 1e-8)


def _weights(kernel: Tensor, ridge: float) -> np.ndarray:
    gram = kernel.double().numpy()
    return np.asarray(np.linalg.inv(gram + ridge * np.eye(len(gram))) @ gram)


def cclk_weakly_supervised(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Columns = None
) -> list[float]:
    """CCLK eq. 7."""
    weights = _weights(kernel, ridge)
    return [
        math.log1p(_sum([row[j] for j in _negatives(row, p)]) / _conditional(row, weights, p))
        for _, row, p in _each(scores, positive)
    ]


def cclk_fair(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Columns = None
) -> list[float]:
    """CCLK eq. 8 and 9."""
    weights = _weights(kernel, ridge)
    return [
        math.log1p(len(_negatives(row, p)) * _conditional(row, weights, p) / math.exp(row[p]))
        for _, row, p in _each(scores, positive)
    ]
