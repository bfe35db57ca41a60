"""A report beside its image, every sentence marked by its support: one page without scripts."""

import base64
from html import escape

import numpy as np
from PIL import Image as Pictures

from cxrtext.images.overlay import encode_png, render_overlay
from cxrtext.service.answers import Image
from cxrtext.service.verification import SupportedSentence, Verification

LONGEST_SIDE = 512
"""Of the pictures on the page, in pixels."""

_STYLE = """
:root { color-scheme: dark; --back: #14171a; --ink: #e6e9ec; --dim: #9aa4ad; --line: #2e353b;
  --supported: #2f6f4f; --weak: #7a6420; --unsupported: #8a3a34; }
@media print { :root { color-scheme: light; --back: #fff; --ink: #111; --dim: #555; --line: #ccc;
  --supported: #c9ecd8; --weak: #f5e6ae; --unsupported: #f6ccc8; } }
body { background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; print-color-adjust: exact; }
h1 { font-size: 1.3rem; } p.dim, td.dim { color: var(--dim); }
.report { white-space: pre-wrap; overflow-wrap: anywhere; }
mark { color: inherit; background: none; border-radius: 3px; padding: 0 2px;
  border-bottom: 1px dotted var(--dim); }
mark.supported, b.supported { background: var(--supported); }
mark.weak, b.weak { background: var(--weak); }
mark.unsupported, b.unsupported { background: var(--unsupported); }
b { font-weight: normal; border-radius: 3px; padding: 1px 6px; }
.beside { margin: 1.5rem 0; display: grid; gap: 1.5rem;
  grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); }
@media (max-width: 45rem) { .beside { grid-template-columns: 1fr; } }
img { width: 100%; height: auto; } table { border-collapse: collapse; width: 100%; }
td, th { border-top: 1px solid var(--line); padding: .4rem .5rem; text-align: left;
  vertical-align: top; } td img { width: 14rem; } td.number { text-align: right; }
"""

_NOTE = (
    "Support is the percentile of the sentence's score in this image among the reference images: "
    "how many of them it fits less. It is not a probability, and a common sentence that is true "
    "of most chests lies anywhere. Research use only; not a medical device."
)


def verification_page(found: Verification, report: str, pixels: Image) -> str:
    """An HTML page of a report against an image; it holds the report's text and the pixels.

    Args:
        found: What was found of the report.
        report: The report.
        pixels: The image, [1, H, W] in [0, 1].
    """
    small, factor = _shrunk(pixels)
    used = found.reference
    compared = f"{used.images} {used.source} images" if used.images else "no reference images"
    rows = "\n".join(_row(one, small, factor) for one in found.sentences)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Report against image</title><style>{_STYLE}</style></head><body>
<h1>Report against image</h1>
<p class="dim">{escape(_NOTE)} Compared with {escape(compared)}.</p>
<div class="beside"><img alt="The radiograph" src="{_uri(encode_png(small))}">
<div class="report">{_marked(found, report)}</div></div>
<table><thead><tr><th>support</th><th>verdict</th><th>wording</th><th>sentence</th>
<th>where it fits best</th></tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""


def _marked(found: Verification, report: str) -> str:
    parts, done = [], 0
    for one in found.sentences:
        parts.append(escape(report[done : one.start]))
        title = "no reference" if one.support is None else f"support {one.support:.0f}"
        parts.append(
            f'<mark class="{one.verdict or ""}" title="{title}, {one.wording}">'
            f"{escape(report[one.start : one.end])}</mark>"
        )
        done = one.end
    return "".join([*parts, escape(report[done:])])


def _row(one: SupportedSentence, pixels: Image, factor: float) -> str:
    heat = _resized(one.grounding.map(), pixels.shape[1], pixels.shape[2])
    x, y = one.peak
    overlay = render_overlay(
        pixels, heat, limits=one.grounding.limits, peak=(x * factor, y * factor)
    )
    support = "–" if one.support is None else f"{one.support:.0f}"
    return (
        f'<tr><td class="number">{support}</td><td><b class="{one.verdict or ""}">'
        f"{one.verdict or '–'}</b></td><td>{one.wording}</td><td>{escape(one.sentence)}</td>"
        f'<td><img alt="Map of the sentence over the radiograph" src="{_uri(encode_png(overlay))}">'
        "</td></tr>"
    )


def _shrunk(pixels: Image) -> tuple[Image, float]:
    height, width = pixels.shape[1:]
    factor = min(1.0, LONGEST_SIDE / max(height, width))
    sizes = (max(1, round(height * factor)), max(1, round(width * factor)))
    return (pixels, 1.0) if factor == 1 else (_resized(pixels[0], *sizes)[None], factor)


def _resized(values: Image, height: int, width: int) -> Image:
    picture = Pictures.fromarray(np.ascontiguousarray(values, dtype=np.float32))
    return np.asarray(picture.resize((width, height), Pictures.Resampling.BILINEAR))


def _uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()
