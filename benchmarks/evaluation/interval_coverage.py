"""How often the 95 % intervals of an evaluation hold the truth, on simulated data.

    python benchmarks/evaluation/interval_coverage.py [--repetitions 4000] [--resampled 1000]
        [--seed 0]

Prints Markdown tables of percentages; of 4,000 repetitions they are within 0.7 of the truth (95 %),
of 1,000, for what is drawn again 400 times each, within 1.4, of 500 within 2.  Nine images without
the finding stand against each with it.  Scores are normal; "skewed" are those whose deviation is
twice as large where the finding is there.  "By patient": patients have one to five images and half
of the variance in common; "mixed" ones may have images with and without the finding.
"""

import argparse
from collections.abc import Callable, Iterable
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.intervals.bootstrap import (
    interval,
    interval_of,
    logit_interval,
    paired_difference,
    resample_covering,
    resample_patients,
)
from cxrtext.evaluation.intervals.delong import area, difference, mean_area, placements
from cxrtext.evaluation.intervals.proportions import proportion_interval
from cxrtext.evaluation.metrics import (
    area_under_curve,
    average_precision,
    weighted_mean,
    weighted_median,
)

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Ends = tuple[float, float]
Z = 1.959964
RESAMPLES = 400
POSITIVES = (10, 25, 50, 100)
AREAS = (0.8, 0.9, 0.95, 0.97)
SETTINGS = ("independent", "by patient", "by patient, mixed", "skewed")


class Draw:
    """Simulated data sets."""

    def __init__(self, seed: int) -> None:
        """Of one stream of random numbers."""
        self.generator = np.random.default_rng(seed)

    def patients(self, images: int) -> Codes:
        """The patient of each image, one to five each."""
        sizes = self.generator.integers(1, 6, images)
        return np.repeat(np.arange(images), sizes)[:images]

    def images(self, positives: int, setting: str) -> tuple[NDArray[np.bool_], Codes]:
        """Labels and patients of ten times as many images."""
        n = 10 * positives
        truth = np.arange(n) < positives
        if setting in ("independent", "skewed"):
            return truth, np.arange(n)
        if setting == "by patient":
            ours, theirs = self.patients(positives), self.patients(n - positives)
            return truth, np.concatenate([ours, ours[-1] + 1 + theirs])
        codes = self.patients(n)
        leaning = self.generator.normal(size=n)[codes] + self.generator.normal(size=n)
        return leaning >= np.sort(leaning)[-positives], codes

    def errors(self, codes: Codes, models: int = 1) -> Floats:
        """Normal errors [models, n] of variance 1; those of two models correlate by a half."""
        n, clustered = len(codes), len(np.unique(codes)) < len(codes)
        parts = []
        for kind in range(models + 1):
            own = self.generator.normal(size=n)
            if clustered:
                own = (own + self.generator.normal(size=codes.max() + 1)[codes]) / sqrt(2)
            parts.append(own if kind or models > 1 else 0 * own)
        if models == 1:
            return np.stack(parts[1:])
        return np.stack([(parts[0] + own) / sqrt(2) for own in parts[1:]])


def shift_of(value: float, spread: float = 1.0) -> float:
    """How much further positives of a deviation lie, for an AUC."""
    return sqrt(1 + spread**2) * NormalDist().inv_cdf(value)


class Tally:
    """How often intervals lie above and below the truth, and how long they are."""

    def __init__(self) -> None:
        """Of nothing yet."""
        self.found: dict[str, list[float]] = {}

    def add(self, name: str, ends: Ends | None, truth: float) -> None:
        """One interval; none is the whole of [0, 1]."""
        low, high = ends or (0.0, 1.0)
        one = self.found.setdefault(name, [0.0, 0.0, 0.0])
        one[0] += 1
        one[1] += low <= truth <= high
        one[2] += high - low

    def cell(self, name: str) -> str:
        """Coverage in percent."""
        count, held, _ = self.found[name]
        return f"{100 * held / count:.1f}"

    def length(self, name: str) -> str:
        """The mean length."""
        count, _, length = self.found[name]
        return f"{length / count:.3f}"


def plain(scores: Floats, truth: NDArray[np.bool_]) -> tuple[Ends, Ends]:
    """DeLong's interval without patients, as it is and on the logit scale."""
    ours, theirs = placements(scores, truth)
    value = float(ours.mean())
    deviation = sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
    straight = value - Z * deviation, value + Z * deviation
    if not 0 < value < 1:
        return straight, (value, value)
    at, reach = log(value / (1 - value)), Z * deviation / (value * (1 - value))
    return straight, (1 / (1 + exp(reach - at)), 1 / (1 + exp(-reach - at)))


def row(cells: Iterable[Any]) -> str:
    """A row of Markdown."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def header(*names: str) -> None:
    """The head of a Markdown table."""
    print("\n" + row(names))
    print("|" + "---|" * len(names))


def areas(draw: Draw, repetitions: int, resampled: int, settings: Iterable[str]) -> None:
    """AUC: percentiles, DeLong, logit-DeLong, and what is reported."""
    header(
        *("images", "with", "AUC", "percentile", "DeLong", "logit-DeLong", "**reported**"),
        *("mean length", "mean of 5, reported"),
    )
    for setting in settings:
        for positives in POSITIVES:
            for value in AREAS:
                tally = Tally()
                spread = 2.0 if setting == "skewed" else 1.0
                shift = shift_of(value, spread)
                for number in range(repetitions):
                    truth, codes = draw.images(positives, setting)
                    errors = draw.errors(codes)[0]
                    scores = np.where(truth, shift + spread * errors, errors)
                    straight, logit = plain(scores, truth)
                    tally.add("DeLong", straight, value)
                    tally.add("logit", logit, value)
                    tally.add("ours", area(scores, truth, codes).interval(), value)
                    if number < resampled:
                        tally.add("percentile", percentile(draw, scores, truth, codes), value)
                    if number < resampled and setting != "skewed":
                        tally.add("mean", mean_of_five(draw, truth, codes, shift), value)
                mean = tally.cell("mean") if "mean" in tally.found else ""
                kinds = ("percentile", "DeLong", "logit")
                cells = [tally.cell(kind) for kind in kinds]
                ours = f"**{tally.cell('ours')}**", tally.length("ours"), mean
                print(row([setting, positives, value, *cells, *ours]), flush=True)


def percentile(draw: Draw, scores: Floats, truth: NDArray[np.bool_], codes: Codes) -> Ends | None:
    """Percentiles over resamples of the patients."""
    if len(np.unique(codes[truth])) < 2:
        return None
    counts = resample_covering(codes.tolist(), [truth, ~truth], RESAMPLES, draw.generator).counts
    return interval(area_under_curve(scores, truth, counts))


def mean_of_five(draw: Draw, truth: NDArray[np.bool_], codes: Codes, shift: float) -> Ends:
    """The mean over five findings, whose errors correlate by a half."""
    errors = draw.errors(codes, 5)
    total = int(codes.max()) + 1
    found = [area(one + shift * truth, truth, codes, total) for one in errors]
    return mean_area(found).interval()


def differences(draw: Draw, repetitions: int) -> None:
    """Two models on the same images."""
    header("images", "with", "AUCs", "paired DeLong, reported", "p < 0.05", "mean length")
    for setting in SETTINGS[:3]:
        for positives in POSITIVES:
            for first, second in ((0.8, 0.8), (0.95, 0.95), (0.9, 0.85), (0.97, 0.9)):
                tally, called = Tally(), 0
                for _ in range(repetitions):
                    truth, codes = draw.images(positives, setting)
                    one, other = draw.errors(codes, 2)
                    found = difference(
                        area(one + shift_of(first) * truth, truth, codes),
                        area(other + shift_of(second) * truth, truth, codes),
                    )
                    tally.add("paired", (found.low, found.high), first - second)
                    called += found.p_value < 0.05
                cells = tally.cell("paired"), f"{100 * called / repetitions:.1f}"
                pair = f"{first}, {second}"
                print(row([setting, positives, pair, *cells, tally.length("paired")]), flush=True)


def shares(draw: Draw, repetitions: int) -> None:
    """Shares of rows of patients: Wilson, and Wilson with the design effect."""
    header("patients", "share", "correlation", "Wilson", "**reported**", "mean length")
    for patients in (10, 25, 50, 100):
        for share in (0.5, 0.8, 0.95):
            for correlation in (0.0, 0.3, 0.7):
                tally = Tally()
                for _ in range(repetitions):
                    codes = np.repeat(np.arange(patients), draw.generator.integers(1, 6, patients))
                    chance = np.full(patients, share)
                    if correlation:
                        rest = (1 - correlation) / correlation
                        chance = draw.generator.beta(share * rest, (1 - share) * rest, patients)
                    right = draw.generator.random(len(codes)) < chance[codes]
                    tally.add("Wilson", proportion_interval(right), share)
                    tally.add("ours", proportion_interval(right, codes), share)
                cells = tally.cell("Wilson"), f"**{tally.cell('ours')}**", tally.length("ours")
                print(row([patients, share, correlation, *cells]), flush=True)


def precision_of(shift: float) -> float:
    """The average precision of infinitely many images, a tenth of which have the finding."""
    normal, cuts = NormalDist(), np.linspace(-8, 8 + shift, 40_001)
    found = np.array([1 - normal.cdf(cut - shift) for cut in cuts])
    false = np.array([1 - normal.cdf(cut) for cut in cuts])
    return float(-np.trapezoid(found / (found + 9 * false), found))


def precisions(draw: Draw, repetitions: int) -> None:
    """Average precision."""
    header("images", "with", "AUC", "AP", "percentile", "**reported**")
    for setting in SETTINGS[:2]:
        for positives in POSITIVES:
            for value in (0.8, 0.9, 0.97):
                shift, tally = shift_of(value), Tally()
                expected = precision_of(shift)
                for _ in range(repetitions):
                    truth, codes = draw.images(positives, setting)
                    scores = draw.errors(codes)[0] + shift * truth
                    counts = resample_patients(codes.tolist(), RESAMPLES, draw.generator)
                    values = average_precision(scores, truth, counts)
                    estimate = average_precision(scores, truth)
                    some = len(np.unique(codes[truth]))
                    tally.add("percentile", interval_of(values), expected)
                    tally.add("ours", logit_interval(estimate, values, some), expected)
                cells = tally.cell("percentile"), f"**{tally.cell('ours')}**"
                print(row([setting, positives, value, f"{expected:.2f}", *cells]), flush=True)


KINDS: dict[str, tuple[Callable[[Floats], Floats], Callable[..., Any], Callable[..., Any]]] = {
    "mean CNR": (lambda u: np.abs(1 + 0.8 * u), np.mean, weighted_mean),
    "mean IoU": (lambda u: 1 / (1 + np.exp(1.5 - 0.8 * u)), np.mean, weighted_mean),
    "MRR": (lambda u: 1 / (np.floor(np.exp(2 + 1.5 * u)) + 1), np.mean, weighted_mean),
    "MedR": (lambda u: np.floor(np.exp(2 + 1.5 * u)) + 1, np.median, weighted_median),
}
"""How values come from normal numbers, and what is taken of them."""


def means(draw: Draw, repetitions: int) -> None:
    """Means and medians over rows of patients, and differences of two models."""
    header("patients", "measure", "percentile", "**reported**", "difference of two, reported")
    for patients in (10, 25, 50, 100):
        for name, (made, of, weighted) in KINDS.items():
            tally = Tally()

            def values(codes: Codes, made: Callable[[Floats], Floats] = made) -> Floats:
                own = draw.generator.normal(size=codes.max() + 1)[codes]
                return made(0.6 * own + 0.8 * draw.generator.normal(size=len(codes)))

            many = np.repeat(np.arange(100_000), 3)
            expected = float(of(values(many)))
            for _ in range(repetitions):
                codes = np.repeat(np.arange(patients), draw.generator.integers(1, 6, patients))
                counts = resample_patients(codes.tolist(), RESAMPLES, draw.generator)
                one, other = values(codes), values(codes)
                first, second = weighted(one, counts), weighted(other, counts)
                tally.add("percentile", interval_of(first), expected)
                tally.add("ours", interval_of(first, patients), expected)
                found = paired_difference(first, second, float(of(one) - of(other)), patients)
                tally.add("difference", (found.low, found.high), 0.0)
            cells = tally.cell("percentile"), f"**{tally.cell('ours')}**", tally.cell("difference")
            print(row([patients, name, *cells]), flush=True)


PARTS = ("areas", "differences", "shares", "precisions", "means")


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--resampled", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--images", choices=SETTINGS, action="append", default=[])
    options = parser.parse_args()
    for place, part in enumerate(PARTS):
        if options.part and part not in options.part:
            continue
        draw = Draw(1000 * options.seed + place)
        if part == "areas":
            areas(draw, options.repetitions, options.resampled, options.images or SETTINGS)
        elif part == "differences":
            differences(draw, options.repetitions)
        elif part == "shares":
            shares(draw, options.repetitions)
        elif part == "precisions":
            precisions(draw, options.resampled)
        else:
            means(draw, options.resampled)


if __name__ == "__main__":
    main()
