"""Histograms as SVG inside a page, without a plotting library."""

from html import escape

from cxrtext.datasets.checking.report import Histogram

_WIDTH, _HEIGHT = 320, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 6, 6, 18, 20


def short(value: float) -> str:
    """Return a number with as many digits as an axis needs."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def svg(histogram: Histogram) -> str:
    """Draw a histogram: bars, the greatest count, the ends of the axis, the median."""
    inner = _WIDTH - _LEFT - _RIGHT
    floor = _HEIGHT - _BOTTOM
    most = max(histogram.counts) or 1
    width = inner / len(histogram.counts)
    low, high = histogram.edges[0], histogram.edges[-1]
    parts = []
    for place, count in enumerate(histogram.counts):
        height = (floor - _TOP) * count / most
        tip = f"{short(histogram.edges[place])} to {short(histogram.edges[place + 1])}: {count:,}"
        parts.append(
            f'<rect x="{_LEFT + place * width:.1f}" y="{floor - height:.1f}" '
            f'width="{max(width - 1, 0.5):.1f}" height="{height:.1f}"><title>{tip}</title></rect>'
        )
    middle = _LEFT + inner * (histogram.median - low) / (high - low)
    label = f"median {short(histogram.median)}"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(histogram.title)}: {label}">'
        f'<g class="bars">{"".join(parts)}</g>'
        f'<line class="axis" x1="{_LEFT}" y1="{floor}" x2="{_WIDTH - _RIGHT}" y2="{floor}"/>'
        f'<line class="median" x1="{middle:.1f}" y1="{_TOP - 4}" x2="{middle:.1f}" y2="{floor}"/>'
        f'<text x="{_LEFT}" y="12">{label}; highest bar {most:,}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 5}">{short(low)}</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 5}" text-anchor="end">{short(high)}</text>'
        f"</svg><figcaption>{escape(histogram.title)}</figcaption></figure>"
    )
