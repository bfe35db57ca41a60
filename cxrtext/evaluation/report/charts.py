"""The charts of an evaluation."""

from collections.abc import Mapping, Sequence

import numpy as np

from cxrtext.evaluation.binary import Floats
from cxrtext.evaluation.curves import precision_recall_curve, roc_curve
from cxrtext.evaluation.reliability import reliability_bins
from cxrtext.evaluation.report.svg import SERIES, Plot, tick
from cxrtext.evaluation.tasks.finding import UNSCALED
from cxrtext.evaluation.tasks.zero_shot import FindingScores

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
UNIT = (0.0, 1.0)
BARS = 24

Row = tuple[str, float, Sequence[float] | None]


def drawn_findings(scores: Mapping[str, FindingScores]) -> list[str]:
    """Findings with both classes, as many as there are colours."""
    both = [name for name, one in scores.items() if one.truth.any() and not one.truth.all()]
    return both[:SERIES]


def roc_chart(scores: Mapping[str, FindingScores]) -> str:
    """ROC curves, one a finding."""
    plot = Plot("ROC", UNIT, UNIT, width=430, height=360)
    plot.axes(QUARTERS, QUARTERS, "1 − specificity", "sensitivity")
    plot.line([(0, 0), (1, 1)])
    for series, name in enumerate(drawn_findings(scores)):
        one = scores[name]
        curve = roc_curve(one.scores, one.truth)
        rates = zip(curve.false_positive_rate, curve.true_positive_rate, strict=True)
        plot.line([(float(x), float(y)) for x, y in rates], series)
        if one.fit is not None:
            above = one.scores > one.fit.threshold
            x, y = float(above[~one.truth].mean()), float(above[one.truth].mean())
            plot.dot(x, y, series, tip=f"{name}: threshold chosen on validation images")
    return plot.svg()


def precision_chart(scores: Mapping[str, FindingScores]) -> str:
    """Precision-recall curves, one a finding."""
    plot = Plot("Precision and recall", UNIT, UNIT, width=430, height=360)
    plot.axes(QUARTERS, QUARTERS, "recall (sensitivity)", "precision")
    for series, name in enumerate(drawn_findings(scores)):
        curve = precision_recall_curve(scores[name].scores, scores[name].truth)
        points = [(float(x), float(y)) for x, y in zip(curve.recall, curve.precision, strict=True)]
        plot.line([(0.0, points[0][1]), *points], series)
    return plot.svg()


def reliability_charts(scores: Mapping[str, FindingScores]) -> list[str]:
    """Share of positives against mean probability, one drawing a finding."""
    charts = []
    for name in drawn_findings(scores):
        one = scores[name]
        plot = Plot(name, UNIT, UNIT, width=186, height=190, left=38)
        plot.axes((0.0, 0.5, 1.0), (0.0, 0.5, 1.0), "probability", "share with")
        plot.line([(0, 0), (1, 1)])
        kinds = [(UNSCALED, 0)]
        if one.fit is not None:
            kinds += [(one.fit.calibration, 1), (one.fit.platt, 2)]
        for calibration, series in kinds:
            bins = reliability_bins(calibration.probabilities(one.scores), one.truth)
            for count, p, share in zip(bins.counts, bins.probability, bins.observed, strict=True):
                radius = 2 + 5 * float(np.sqrt(count / bins.counts.sum()))
                tip = f"{count} images, mean probability {p:.2f}, share with {share:.2f}"
                plot.dot(float(p), float(share), series, radius=radius, tip=tip)
        charts.append(plot.svg())
    return charts


def histogram(values: Floats, title: str, label: str) -> str:
    """A histogram; what lies below 0 has another colour."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.1)
    width = (high - low) / BARS
    # 0 is an edge, so that no bar is of two colours.
    below = int(np.ceil(-low / width))
    edges = (np.arange(BARS + 2) - below) * width
    counts, _ = np.histogram(values, edges)
    most = max(int(counts.max()), 1)
    plot = Plot(title, (float(edges[0]), float(edges[-1])), (0, most), width=420, height=230)
    ends = _nice(float(edges[0]), float(edges[-1]))
    plot.axes(ends, _nice(0, most, whole=True), label, "sentences")
    for place, count in enumerate(counts):
        first, last = float(edges[place]), float(edges[place + 1])
        tip = f"{first:.2f} to {last:.2f}: {count}"
        plot.bar((first, last), int(count), 1 if last <= 1e-9 else 0, tip)
    return plot.svg()


def _nice(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Three to six round numbers between two."""
    span = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(span))
    step = float(next(m for m in (1, 2, 5, 10) if m * power >= span) * power)
    step = max(1.0, round(step)) if whole else step
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [round(k * step, 10) for k in range(first, last + 1)]


def forest(
    rows: Sequence[Row], title: str, label: str, *, ends: tuple[float, float] | None = None
) -> str:
    """Values with their intervals, one a line."""
    every = [value for _, v, some in rows for value in (v, *(some or ()))]
    low, high = ends or (min(0.0, *every), max(every) * 1.05)
    widest = max(len(name) for name, _, _ in rows)
    left = min(190.0, 16 + 6.2 * widest)
    height = 66 + 20 * len(rows)
    plot = Plot(title, (low, high), (len(rows), 0), width=left + 330, height=height, left=left)
    plot.axes(_nice(low, high), (), label, "")
    for place, (name, value, some) in enumerate(rows):
        middle = place + 0.5
        plot.label(left - 8, plot.y(middle) + 3.5, name, "end")
        if some is not None:
            plot.line([(some[0], middle), (some[1], middle)], 0)
        text = f"{name}: {value:.3f}"
        plot.dot(value, middle, 0, tip=text)
    return plot.svg()


def legend_names(scores: Mapping[str, FindingScores]) -> tuple[str, ...]:
    """The names of the lines of :func:`roc_chart`."""
    return tuple(drawn_findings(scores))


def frequency_legend(edges: Sequence[int]) -> tuple[str, ...]:
    """Names of frequency classes."""
    names = []
    for first, after in zip(edges, [*edges[1:], None], strict=True):
        if after is None:
            names.append(f"{tick(first)} or more")
        elif after - first == 1:
            names.append(tick(first))
        else:
            names.append(f"{tick(first)}–{tick(after - 1)}")
    return tuple(names)
