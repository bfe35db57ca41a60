"""Charts of sentence embeddings: a map coloured by frequency, and the similarity of prompts."""

from collections.abc import Sequence
from html import escape

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.evaluation.blocks import Figure
from cxrtext.evaluation.prompts import Prompts
from cxrtext.evaluation.report.charts import frequency_legend
from cxrtext.evaluation.report.neighbours import MOST, embed_neighbours
from cxrtext.evaluation.report.svg import Plot
from cxrtext.evaluation.tasks.wording import Wording
from cxrtext.models import ImageTextModel

LEVELS = (1, 2, 4, 8, 16)
"""The first number of times of each class of frequency."""

FEWEST = 20
"""Sentences below which a map shows nothing."""

MOST_PROMPTS = 40


def _chosen(times: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.intp]:
    """At most :data:`MOST` sentences: the most frequent half, and others at random."""
    if len(times) <= MOST:
        return np.arange(len(times))
    order = np.argsort(-times, kind="stable")
    rest = generator.choice(order[MOST // 2 :], size=MOST - MOST // 2, replace=False)
    return np.concatenate([order[: MOST // 2], rest])


def sentence_map(model: ImageTextModel, wording: Wording, seed: int) -> Figure | None:
    """t-SNE of the distinct sentences of the reports; None where they are few.

    The dots say how often a sentence occurs, and not what it says.
    """
    times = np.asarray(wording.times)
    if len(times) < FEWEST:
        return None
    rows = _chosen(times, np.random.default_rng([seed, 7]))
    vectors = model.embed_sentences([wording.texts[row] for row in rows]).double().cpu().numpy()
    places = embed_neighbours(vectors)
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.03 * (high - low)
    plot = Plot(
        "Sentence embeddings",
        (float(low[0] - margin[0]), float(high[0] + margin[0])),
        (float(low[1] - margin[1]), float(high[1] + margin[1])),
        width=640,
        height=430,
        left=12,
        bottom=12,
    )
    levels = np.searchsorted(LEVELS, times[rows], side="right") - 1
    for number in np.argsort(levels, kind="stable"):  # frequent ones on top
        level, count = int(levels[number]), int(times[rows[number]])
        x, y = places[number].tolist()
        tip = f"{count} time" + ("s" if count > 1 else "")
        plot.dot(x, y, level, radius=2.2 + 0.7 * level, tip=tip)
    svg = plot.svg().replace("<svg ", '<svg class="levels" ', 1)
    some = "" if len(rows) == len(times) else f" {len(rows)} of"
    caption = (
        f"t-SNE of{some} {len(times):,} distinct sentences, coloured by how often they stand in "
        "the reports. Neighbours are alike for the model; distances between groups mean nothing."
    )
    used = max(int(levels.max()) + 1, 1)
    names = frequency_legend(LEVELS)[:used]
    return Figure([svg], caption, tuple(f"levels:{name}" for name in names))


def _cosines(model: ImageTextModel, texts: Sequence[str]) -> NDArray[np.float64]:
    with torch.inference_mode():
        vectors = model.embed_sentences(texts).double()
        return (vectors @ vectors.T).cpu().numpy()


def prompt_matrix(model: ImageTextModel, prompts: dict[str, Prompts]) -> Figure:
    """The cosine of every two prompts."""
    texts = [
        phrase
        for entry in prompts.values()
        for side in (entry.positive, entry.negative)
        for phrase in side
    ]
    if len(texts) > MOST_PROMPTS:
        texts = [side[0] for one in prompts.values() for side in (one.positive, one.negative)]
    texts = texts[:MOST_PROMPTS]
    cosines = _cosines(model, texts)
    cell, left = (34, 240) if len(texts) <= 12 else (17, 240)
    size = cell * len(texts)
    parts = []
    for row, name in enumerate(texts):
        middle = (row + 0.5) * cell
        short = name if len(name) <= 42 else name[:41] + "…"
        parts.append(
            f'<text x="{left - 8}" y="{middle + 3.5:.1f}" text-anchor="end">{escape(short)}</text>'
        )
        for column, other in enumerate(texts):
            value = float(cosines[row, column])
            tip = escape(f"{name} / {other}: {value:.2f}").replace("-", "−")
            parts.append(
                f'<rect class="fill c{0 if value >= 0 else 1}" x="{left + column * cell}" '
                f'y="{row * cell}" width="{cell - 1}" height="{cell - 1}" '
                f'fill-opacity="{min(abs(value), 1):.2f}"><title>{tip}</title></rect>'
            )
            if cell > 30:
                text = f"{value:.2f}".replace("-", "−").replace("0.", ".")
                parts.append(
                    f'<text class="cell" x="{left + (column + 0.5) * cell:.1f}" '
                    f'y="{middle + 3.5:.1f}" text-anchor="middle">{text}</text>'
                )
    svg = (
        f'<svg viewBox="0 0 {left + size} {size}" style="max-width:{left + size}px" role="img" '
        f'aria-label="Cosine of every two prompts">{"".join(parts)}</svg>'
    )
    return Figure(
        [svg],
        "Cosine of every two prompts. A model that tells a finding from its absence has light or "
        "orange cells between a prompt and its denial.",
        ("above 0", "below 0"),
    )
