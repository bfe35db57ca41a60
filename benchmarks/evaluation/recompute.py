"""An evaluation's figures and their intervals, computed again from its predictions without cxrtext.

Reads ``predictions.parquet`` with pyarrow, and computes every row of ``results.csv`` that has an
interval, with numpy, scipy and scikit-learn: AUCs by all pairs, influence by formulas written out.
A figure that differs, and a row with an interval that is not computed here, is a failure.

    python benchmarks/evaluation/recompute.py demo/evaluation
"""

import csv
import sys
from itertools import combinations
from math import inf, isnan, sqrt
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm, t
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    f1_score,
    roc_auc_score,
)

CUTOFFS = (1, 5, 10, 50, 100)
OTHERS, GAIN = ", other patients", ", gain over other patients"
SHARES = ("pointing game", "above its mirror", "peak on its side")


class Figure:
    """A value, the influence of each patient on it, and the ends at z standard errors."""

    def __init__(self, value, influence, ends, degrees=inf):
        self.value, self.influence, self.ends, self.degrees = value, influence, ends, degrees

    def interval(self, level=0.95):
        if not self.degrees > 0:
            return None
        return self.ends(t.ppf((1 + level) / 2, self.degrees) if self.degrees < inf
                         else norm.ppf((1 + level) / 2))  # fmt: skip


def sums(values, patients):
    """Sums by patient of all, times √(I / (I − 1)) of those that have a row, and their number."""
    own = len(set(patients.tolist()))
    factor = sqrt(own / (own - 1)) if own > 1 else 0.0
    return factor * np.bincount(patients, values, minlength=TOTAL[0]), own


TOTAL = [0]
"""How many patients the part at hand has."""


def mean(values, patients):
    known = ~np.isnan(values)
    if not known.any():
        return None
    values, patients = values[known], patients[known]
    value, n = values.mean(), np.bincount(patients, minlength=TOTAL[0])
    left = 1 - n / n.sum()
    if not left.all():
        return Figure(value, None, None, 0)
    influence = np.bincount(patients, values - value, TOTAL[0]) / n.sum() / np.sqrt(left)
    # How a patient's sum varies if its rows are equal: through its own value and through the mean.
    by_value = np.diag(n) - np.outer(n, n) / n.sum()
    spread = by_value @ by_value.T / np.sqrt(np.outer(left, left))
    degrees = np.trace(spread) ** 2 / (spread**2).sum()
    return Figure(value, influence, skewed(value, influence), degrees)


def skewed(value, influence, apart=0.0):
    """Ends at the statistics whose Hall transformation is z and -z."""
    error = sqrt((influence**2).sum() + apart)
    k = (influence**3).sum() / error**3 if error else 0.0

    def statistic(z):
        far = 4 + 4 * abs(z) + 9 / max(abs(k), 1e-3)
        return brentq(lambda x: x + k * x**2 / 3 + k**2 * x**3 / 27 - z, -far, far, xtol=1e-14)

    return lambda z: (value - error * statistic(z), value - error * statistic(-z))


def kurtosis_degrees(influence, own):
    of_patient = (np.atleast_2d(influence) ** 2).sum(axis=0)
    v = of_patient.sum()
    excess = (of_patient**2).sum() / v**2 - 1 / own if v and own > 1 else 0
    return min(own - 1, max(1, 2 / excess)) if excess > 0 else own - 1


def wilson(value, rows):
    def ends(z):
        middle = (value + z**2 / (2 * rows)) / (1 + z**2 / rows)
        half = z * sqrt(value * (1 - value) / rows + z**2 / (4 * rows**2)) / (1 + z**2 / rows)
        return (0 if value == 0 else middle - half), (1 if value == 1 else middle + half)

    return ends


def share(right, patients):
    right, value, n = right.astype(float), right.mean(), len(right)
    influence, own = sums((right - value) / n, patients)
    sizes, hits = np.bincount(patients), np.bincount(patients, right >= 0.5)
    effect = 1.0
    if own < n or set(right.tolist()) - {0.0, 1.0}:
        full = (sizes**2).sum() / n
        few = min((hits > 0).sum(), (hits < sizes).sum()) ** 2
        seen = (influence**2).sum() * (n - 1) / (value * (1 - value)) if 0 < value < 1 else full
        effect = (few * (seen if own > 1 else full) + 2 * full) / (few + 2)
    scale = np.linalg.norm(influence)
    influence = influence * (sqrt(value * (1 - value) * effect / n) / scale if scale else 1)
    return Figure(value, influence, wilson(value, n / effect), inf if own == n else own - 1)


def on_logit(value, variance, edge):
    def ends(z):
        middle = min(max(value, edge), 1 - edge)
        reach = z * sqrt(variance) / (middle * (1 - middle))
        low, high = expit(logit(middle) - reach), expit(logit(middle) + reach)
        return (0 if value < middle else low), (1 if value > middle else high)

    return ends


def hanley(a, m, n):
    a = max(a, 1 - a)
    rest = (m - 1) * (a / (2 - a) - a**2) + (n - 1) * (2 * a**2 / (1 + a) - a**2)
    return (a * (1 - a) + rest) / (m * n)


def auc(scores, truth, patients):
    """By all pairs (Obuchowski 1997), drawn toward Hanley and McNeil's variance; None lacks one."""
    truth = truth.astype(bool)
    if not truth.any() or truth.all() or np.isnan(scores).any():
        return None
    up, down = scores[truth][:, None], scores[~truth][None]
    wins = (up > down) + 0.5 * (up == down)
    value, (m, n) = wins.mean(), wins.shape
    by_positive, by_negative = wins.mean(axis=1), wins.mean(axis=0)
    some, others = set(patients[truth].tolist()), set(patients[~truth].tolist())
    i, j, k = len(some), len(others), len(some | others)
    edge = 0.25 / min(i, j)
    middle = min(max(value, edge), 1 - edge)
    x = np.bincount(patients[truth], by_positive - value, minlength=TOTAL[0]) / m
    y = np.bincount(patients[~truth], by_negative - value, minlength=TOTAL[0]) / n
    apart, stacked = hanley(middle, i, j), np.zeros((3, TOTAL[0]))
    if min(i, j) > 1 and (x.any() or y.any()):
        a, b, c = i / (i - 1), j / (j - 1), k / (k - 1)
        stacked = np.stack([sqrt(c) * (x + y), sqrt(a - c) * x, sqrt(b - c) * y])
        variance = a * x @ x + b * y @ y + 2 * c * x @ y
        parts = a * x @ x + c * x @ y, b * y @ y + c * x @ y
        degrees = sum(parts) ** 2 / (parts[0] ** 2 / (i - 1) + parts[1] ** 2 / (j - 1))
        effect = variance / (by_positive.var(ddof=1) / m + by_negative.var(ddof=1) / n)
        drawn = hanley(middle, m, n) * max(effect, 1)
        drawn = (degrees * variance + 8 * drawn) / (degrees + 8)
        stacked, apart = stacked * sqrt(drawn / variance), 0.0
    found = Figure(value, stacked, on_logit(value, (stacked**2).sum() + apart, edge))
    found.apart, found.edge = apart, edge
    return found


def mean_auc(every):
    stacked = np.mean([one.influence for one in every], axis=0)
    apart = sum(one.apart for one in every) / len(every) ** 2
    value, edge = np.mean([one.value for one in every]), np.mean([one.edge for one in every])
    return Figure(value, stacked, on_logit(value, (stacked**2).sum() + apart, edge))


def mean_share(every):
    value, influence = (
        np.mean([getattr(o, n) for o in every], axis=0) for n in ("value", "influence")
    )
    variance, rows = (influence**2).sum(), [one.rows for one in every]
    worth = min(value * (1 - value) / variance, sum(rows)) if variance else min(rows)
    return Figure(value, influence, wilson(value, worth), min(one.degrees for one in every))


def precision(scores, truth, patients):
    """Average precision; what one more row of a kind would change, by all pairs."""
    truth, m = truth.astype(float), truth.sum()
    above = scores[:, None] <= scores[None]  # of each row those that score as high
    found, everyone = above @ truth, above.sum(axis=1)
    at = found / everyone
    value = (truth * at).sum() / m
    moved = truth * (at - value)
    moved += ((truth / everyone)[:, None] * (truth[None] - at[:, None]) * above).sum(axis=0)
    influence, own = sums(moved / m, patients)
    positives = len(set(patients[truth > 0].tolist()))
    edge, variance = 0.25 / positives, (influence**2).sum()
    if value > 1 - edge:
        variance = max(variance, edge * (1 - edge) / positives)
    degrees = kurtosis_degrees(influence, own)
    return Figure(value, influence, on_logit(value, variance, edge), degrees)


def median(values, patients):
    below = (values < np.median(values)) + 0.5 * (values == np.median(values))
    moved, own = sums((below - below.mean()) / len(values), patients)
    error = max(np.linalg.norm(moved), 0.5 / sqrt(len(values)))
    found = Figure(np.median(values), moved, None, own - 1)
    found.ends = lambda z: tuple(
        np.quantile(values, np.clip([0.5 - z * error, 0.5 + z * error], 0, 1))
    )
    found.error, found.values = error, np.sort(values)
    return found


def f1(called, truth, patients):
    top, bottom = 2.0 * (called & truth), called.astype(float) + truth
    value = top.sum() / bottom.sum()
    influence, own = sums((top - value * bottom) / bottom.sum(), patients)
    variance = (influence**2).sum()
    return Figure(
        value,
        influence,
        wilson(value, value * (1 - value) / variance if variance else own),
        own - 1,
    )


def ratio(one, other):
    """Donner and Zou 2012, of shares (value, low, high)."""
    (p, l1, u1), (q, l2, u2) = one, other
    if not q:
        return (inf if p else np.nan), sqrt(l1 * (2 * p - l1)) / u2, inf

    top, below = l1 * (2 * p - l1), u2 * (2 * q - u2)
    low = top / (p * q + sqrt(max((p * q) ** 2 - top * below, 0))) if top > 0 else 0.0
    top, below = u1 * (2 * p - u1), l2 * (2 * q - l2)
    root = sqrt(max((p * q) ** 2 - top * below, 0))
    high = (p * q + root) / below if below > 0 else inf
    return p / q, low, high


def mover(one, other, level):
    """The ends of a difference (Zou and Donner 2008), no wider than the difference's own."""
    degrees = kurtosis_degrees(one.influence - other.influence, one.influence.shape[-1])
    z = t.ppf((1 + level) / 2, degrees)
    s, r = (sqrt((o.influence**2).sum() + o.apart) for o in (one, other))
    corr, gap = (one.influence * other.influence).sum() / (s * r), one.value - other.value
    whole = sqrt(max(s**2 + r**2 - 2 * corr * s * r, 0))
    (l1, u1), (l2, u2) = one.ends(z), other.ends(z)

    def joined(a, b):
        return min(sqrt(max(a**2 + b**2 - 2 * corr * a * b, 0)), max(a / s, b / r) * whole)

    return gap - joined(one.value - l1, u2 - other.value), gap + joined(
        u1 - one.value, other.value - l2
    )


def slope(logits, truth, patients):
    """Calibration slope and intercept with the sandwich of patients."""
    fitted = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(logits[:, None], truth)
    at = 0.0
    for _ in range(100):  # Newton's steps of the intercept, the slope held at 1
        p = expit(logits + at)
        at += (truth - p).sum() / (p * (1 - p)).sum()
    for design, p, value, place in (
        (np.stack([np.ones(len(logits)), logits], 1), fitted.predict_proba(logits[:, None])[:, 1],
         fitted.coef_[0, 0], 1),
        (np.ones((len(logits), 1)), expit(logits + at), at, 0),
    ):  # fmt: skip
        bread = np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)
        each = design * (truth - p)[:, None] @ bread
        influence, own = sums(each[:, place], patients)
        degrees = kurtosis_degrees(influence, own)
        yield Figure(value, influence, skewed(value, influence), degrees)


def platt(scores, truth):
    """Scale and shift of the validation images, labels drawn in a little (Lin et al. 2007)."""
    m, n = truth.sum(), (~truth).sum()
    target = np.where(truth, (m + 1) / (m + 2), 1 / (n + 2))
    spread = scores.std()
    design = np.stack([np.ones(len(scores)), (scores - scores.mean()) / spread], 1)
    at = np.zeros(2)
    for _ in range(200):
        p = expit(design @ at)
        at = at + np.linalg.solve((design.T * (p * (1 - p))) @ design, design.T @ (target - p))
    return at[1] / spread, at[0] - at[1] * scores.mean() / spread


def numbered(names):
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    TOTAL[0] = len(places)
    return np.array([places[name] for name in names])


def findings(part, rows, said):
    """Classification by finding, its means, operating points, calibration and groups."""
    names = list(dict.fromkeys(r["finding"] for r in rows))
    first = [r for r in rows if r["finding"] == names[0] and r["measured"]]
    of_image = dict(
        zip((r["image"] for r in first), numbered([r["patient_id"] for r in first]), strict=True)
    )
    means = {}
    for finding in names:
        own = [r for r in rows if r["finding"] == finding and r["label"] in (0, 1)]
        seen, own = [r for r in own if not r["measured"]], [r for r in own if r["measured"]]
        who = np.array([of_image[r["image"]] for r in own])
        truth = np.array([r["label"] for r in own]) == 1
        score = np.array([r["score"] for r in own])
        found = {"AUC": auc(score, truth, who), "AP": precision(score, truth, who)}
        assert abs(found["AUC"].value - roc_auc_score(truth, score)) < 1e-12
        assert abs(found["AP"].value - average_precision_score(truth, score)) < 1e-12
        right = (score > 0) == truth
        found["ACC"] = share(right, who)
        assert found["ACC"].value == accuracy_score(truth, score > 0)
        if own[0].get("score_positive") is not None and any(r["score_negative"] for r in own):
            found["AUC, positive prompt"] = auc(
                np.array([r["score_positive"] for r in own]), truth, who
            )
            found["AUC, negative prompt"] = auc(
                -np.array([r["score_negative"] for r in own]), truth, who
            )
        chance = expit(score / said.get((part, finding, "T"), 1.0))
        found["Brier"] = mean((chance - truth) ** 2, who)
        assert abs(found["Brier"].value - brier_score_loss(truth, chance)) < 1e-12
        if (cut := said.get((part, finding, "threshold"))) is not None:
            found["sensitivity"] = share(score[truth] > cut, who[truth])
            found["specificity"] = share(score[~truth] <= cut, who[~truth])
        for name, one in found.items():
            yield (part, finding, name), one
            means.setdefault(name, []).append(one)
        if part == "finding heads":
            continue
        for place in [
            k
            for k in said
            if k[0].startswith("operating points") and k[1:] == (finding, "threshold")
        ]:
            yield from points(place[0], finding, score > said[place], truth, who)
        if ("calibration", finding, "intercept") in said:
            told = np.array([r["label"] for r in seen]) == 1
            a, b = platt(np.array([r["score"] for r in seen]), told)
            for name, one in zip(
                ("slope", "intercept"), slope(a * score + b, truth, who), strict=True
            ):
                yield ("calibration", finding, name), one
            for cut in (k / 100 for k in range(1, 100)):
                gain = np.where(truth, 1, -cut / (1 - cut))
                worth = np.where(expit(a * score + b) >= cut, gain, 0)
                one, sizes = mean(worth, who), np.bincount(who)
                if one.degrees:
                    three_more = 3 * cut / (1 - cut) * (sizes**2).sum() / len(who) ** 3
                    one.ends = skewed(one.value, one.influence, three_more)
                yield ("net benefit", finding, f"{cut:.2f}"), one
        yield from groups(finding, own, score, truth, who, said)
    for name in ("AUC", "AUC, positive prompt", "AUC, negative prompt", "ACC"):
        every = means.get(name, [])
        if len(every) == len(names):
            for one in every:
                one.rows = 1 / max(wilson_rows(one), 1e-300) if name == "ACC" else 0
            yield (part, "mean", name), (mean_share if name == "ACC" else mean_auc)(every)


def wilson_rows(one):
    """1 over the number of rows that a share is worth, from its ends at z = 1."""
    low, high = one.ends(1.0)
    # The middle of Wilson's interval is (p + q / 2) / (1 + q), the width says q where p is 0 or 1.
    p = one.value
    if p in (0, 1):
        return (high - low) / (1 - (high - low))
    middle = (low + high) / 2
    if abs(p - 0.5) > 1e-9:
        return (middle - p) / (0.5 - middle)
    half = (high - low) / 2
    return 4 * half**2 / (1 - 4 * half**2)


def points(part, finding, above, truth, who):
    se, sp = share(above[truth], who[truth]), share(~above[~truth], who[~truth])
    yield (part, finding, "sensitivity"), se
    yield (part, finding, "specificity"), sp
    if above.any():
        yield (part, finding, "PPV"), share(truth[above], who[above])
    if not above.all():
        yield (part, finding, "NPV"), share(~truth[~above], who[~above])
    yield (part, finding, "F1"), f1(above, truth, who)
    assert abs(f1(above, truth, who).value - f1_score(truth, above)) < 1e-12
    a, b = ((one.value, *(one.interval() or (0, 1))) for one in (se, sp))
    ratios = (ratio(a, (1 - b[0], 1 - b[2], 1 - b[1])), ratio((1 - a[0], 1 - a[2], 1 - a[1]), b))
    for name, one in zip(("LR+", "LR−"), ratios, strict=True):
        if not isnan(one[0]):
            yield (part, finding, name), one


def band(age):
    try:
        years = float(age)
    except (TypeError, ValueError):
        return "unknown"
    return next(
        n
        for n, top in (("under 40", 40), ("40-59", 60), ("60-79", 80), ("80 and over", 999))
        if years < top
    )


def groups(finding, own, score, truth, who, said):
    for part in dict.fromkeys(k[0] for k in said if k[0].startswith("groups, ")):
        column = part.removeprefix("groups, ")
        cells = [r.get(f"manifest.{column}") for r in own]
        cells = np.array([band(c) if column == "age" else c or "unknown" for c in cells])
        areas = []
        for name in sorted(set(cells.tolist())):
            at = cells == name
            if min(truth[at].sum(), (~truth[at]).sum()) >= 10:
                areas.append(auc(score[at], truth[at], who[at]))
                yield (part, name, f"AUC of {finding}"), areas[-1]
        pairs = list(combinations(sorted(areas, key=lambda one: -one.value), 2))
        if pairs:
            ends = [mover(a, b, 1 - 0.05 / len(pairs)) for a, b in pairs]
            low, high = max(e[0] for e in ends), max(e[1] for e in ends)
            values = [one.value for one in areas]
            yield (part, "gap", f"AUC of {finding}"), (max(values) - min(values), max(low, 0), high)


def classes(rows):
    """Accuracy of the finding that scores highest, of images with exactly one."""
    rows = [r for r in rows if r["measured"]]
    names = list(dict.fromkeys(r["finding"] for r in rows))
    images = {}
    for r in rows:
        images.setdefault(r["image"], {})[r["finding"]] = r
    alone = [i for i in images.values() if [r["label"] for r in i.values()].count(1) == 1
             and -1 not in [r["label"] for r in i.values()]]  # fmt: skip
    who = numbered([i[names[0]]["patient_id"] for i in alone])
    truth = np.array([next(k for k, n in enumerate(names) if i[n]["label"] == 1) for i in alone])
    for name, column in (("positive prompt", "score_positive"), ("difference", "score")):
        best = np.array(
            [np.argmax([i[n].get(column, i[n]["score"]) for n in names]) for i in alone]
        )
        yield ("findings as classes", name, "accuracy"), share(best == truth, who)
        recall = balanced_accuracy_score(truth, best)
        yield ("findings as classes", name, "mean recall"), (recall, None, None)


def phrases(rows, said):
    """Each measure of sentences by finding and of all, beside its control."""
    who = numbered([r["patient_id"] for r in rows])
    for r, number in zip(rows, who, strict=True):
        r["who"] = number
    for task, group in dict.fromkeys(k[:2] for k in said if k[0] in {r["task"] for r in rows}):
        own = [r for r in rows if r["task"] == task]
        if group not in ("mean of sentences", "all sentences"):
            own = [r for r in own if (r["finding"] or "no finding") == group]
        elif task == "phrases without a box":
            both = {r["finding"] for r in own if r["truth"]} & {
                r["finding"] for r in own if not r["truth"]
            }
            own = [r for r in own if r["finding"] in both or not both]
        for measure in dict.fromkeys(r["measure"] for r in own):
            some = [r for r in own if r["measure"] == measure]
            value, control = (np.array([r[n] for r in some], float) for n in ("value", "control"))
            who = numbered([r["who"] for r in some])
            if some[0]["truth"] is not None:
                truth = np.array([r["truth"] for r in some])
                yield (task, group, measure), auc(value, truth, who)
                yield (task, group, measure + OTHERS), auc(control, truth, who)
                continue
            known = ~np.isnan(value)
            whole = share if measure in SHARES else mean
            yield (task, group, measure), whole(value[known], who[known]) if known.any() else None
            yield (task, group, measure + GAIN), mean(value - control, who)


def ranks(part, group, values, names, candidates):
    """Recall at cut-offs, median rank and mean reciprocal rank of one direction."""
    who = numbered(names)
    for cut in (one for one in CUTOFFS if one < candidates):
        yield (part, group, f"R@{cut}"), share(values <= cut, who)
    yield (part, group, "MedR"), median(values, who)
    yield (part, group, "MRR"), share(1 / values, who)


def boxes(rows):
    part, both = "retrieval of boxes", "both directions"
    directions = ("sentence to box", "box to sentence")
    for suffix in ("", ", equal sentences right"):
        some = [[r for r in rows if r["direction"] == one + suffix] for one in directions]
        columns = [np.array([r["rank"] for r in own], float) for own in some]
        names = [r["patient_id"] for r in some[0]]
        for direction, values in zip(directions, columns, strict=True):
            yield from ranks(part, direction + suffix, values, names, len(names))
        who = numbered(names)
        if len(names) > 100:
            right = np.mean([values <= cut for values in columns for cut in (10, 50, 100)], axis=0)
            yield (part, both + suffix, "Recall"), share(right, who)
        one, other = (median(values, who) for values in columns)
        error, ordered = max(one.error, other.error), (one.values + other.values) / 2

        def ends(z, e=error, o=ordered):
            return tuple(np.quantile(o, np.clip([0.5 - z * e, 0.5 + z * e], 0, 1)))

        yield (
            (part, both + suffix, "MedR"),
            Figure((one.value + other.value) / 2, None, ends, one.degrees),
        )


def figures(folder, said):
    """Every figure: where ``results.csv`` has it, and as computed here."""
    rows = pq.read_table(folder / "predictions.parquet").to_pylist()
    parts = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    yield from findings("zero-shot classification", parts["classification"], said)
    if ("findings as classes", "difference", "accuracy") in said:
        yield from classes(parts["classification"])
    if "heads" in parts:
        yield from findings("finding heads", parts["heads"], said)
    yield from phrases(parts.get("phrases", []), said)
    if "box retrieval" in parts:
        yield from boxes(parts["box retrieval"])
    for direction in dict.fromkeys(r["direction"] for r in parts.get("retrieval", [])):
        own = [r for r in parts["retrieval"] if r["direction"] == direction]
        values = np.array([r["rank"] for r in own], float)
        yield from ranks(
            "retrieval", direction, values, [r["patient_id"] for r in own], own[0]["candidates"]
        )
    for finding in dict.fromkeys(r["finding"] for r in parts.get("probe", [])):
        own = [r for r in parts["probe"] if r["finding"] == finding and r["label"] in (0, 1)]
        who = numbered([r["patient_id"] for r in own])
        truth = np.array([r["label"] for r in own])
        yield (
            ("linear probes", finding, "AUC"),
            auc(np.array([r["score"] for r in own]), truth, who),
        )


def main() -> None:
    """Print the table, and fail where a figure differs by more than 1e-7 or is not computed."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "predictions.parquet").is_file():
        raise SystemExit("give a folder of 'cxrtext evaluate --out'")
    folder = Path(sys.argv[1])
    with (folder / "results.csv").open(newline="", encoding="utf-8") as handle:
        rows = [row for row in csv.DictReader(handle) if row["value"]]
    said = {(r["part"], r["group"], r["measure"]): float(r["value"]) for r in rows}
    ends = {(r["part"], r["group"], r["measure"]): (float(r["low"]), float(r["high"]))
            for r in rows if r["low"]}  # fmt: skip
    wrong, checked = [], set()
    for place, one in figures(folder, said):
        if one is None or place not in said:
            continue
        value, *own = (
            one if isinstance(one, tuple) else (one.value, *(one.interval() or (None, None)))
        )
        told = [said[place], *ends.get(place, (None, None))]
        checked.add(place)
        for a, b in zip((value, *own), told, strict=True):
            if (a is None) != (b is None) or (a is not None and not np.isclose(a, b, 1e-6, 1e-7)):
                wrong.append(f"{': '.join(place)}: {value} {own}, and not {told}")
                break
    lacking = sorted(set(ends) - checked)
    print(f"{len(checked)} figures, {len(checked & set(ends))} of {len(ends)} with an interval")
    if wrong or lacking:
        more = [f"{': '.join(place)}: is not computed here" for place in lacking]
        raise SystemExit("\n".join([*wrong, *more]))


if __name__ == "__main__":
    main()
