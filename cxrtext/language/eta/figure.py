"""The figure that shows a class probability over its corpus."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ConfigError
from cxrtext.files import replacing
from cxrtext.language.eta.frequency_panel import draw_frequency
from cxrtext.language.eta.panels import (
    GREY,
    INK,
    draw_eta,
    draw_false_negatives,
    draw_log_likelihood,
)
from cxrtext.language.eta.report import EtaReport
from cxrtext.language.eta.statistics import EtaStatistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 10.5,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.1,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "svg.hashsalt": "cxrtext",  # else the names inside an SVG differ from run to run
}


def _panels(report: EtaReport, statistics: EtaStatistics) -> list[Callable[[Axes], None]]:
    return [
        partial(draw_log_likelihood, report=report),
        partial(draw_eta, report=report, median=statistics.median_eta),
        partial(draw_frequency, report=report),
        partial(draw_false_negatives, statistics=statistics, batch_size=report.batch_size),
    ]


def caption(report: EtaReport, statistics: EtaStatistics) -> str:
    """Say in one sentence what is shown: a, k, the corpus's counts, the model, the batch.

    Args:
        report: The scored corpus, and a and k.
        statistics: What was computed of it.

    Returns:
        Plain text.
    """
    return (
        f"η = {report.a:.3g} · p^{report.k:.3g} over {statistics.n_sentences:,} sentences "
        f"({statistics.n_distinct:,} distinct, {statistics.repeated:,} of them seen more than "
        f"once), scored by {report.model}; batches of {report.batch_size}."
    )


@contextmanager
def _drawing() -> Iterator[type[Figure]]:
    """Give matplotlib's figure with our style; nothing of it outlasts the block."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "drawing needs matplotlib, which is not installed: pip install 'cxrtext[train]'"
        ) from error
    with mpl.rc_context(STYLE):
        yield Figure


def _save(figure: Figure, target: Path | io.BytesIO, kind: str) -> None:
    # Without the date, so that equal input gives equal files; PNG has none, and knows no such key.
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(target, format=kind, metadata=date.get(kind))


def save_figure(path: Path, report: EtaReport, statistics: EtaStatistics) -> None:
    """Draw all panels with a caption, and write them to a file.

    Args:
        path: Ends in .png, .svg or .pdf; a file that is there is replaced.
        report: The scored corpus, and a and k.
        statistics: What was computed of it.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    with _drawing() as figure_type:
        figure = figure_type(figsize=(13.5, 10.5), dpi=120, layout="constrained")
        for number, draw in enumerate(_panels(report, statistics), start=1):
            draw(figure.add_subplot(2, 2, number))
        # A model's name may hold a dollar sign, which is no mathematics.
        text = caption(report, statistics)
        figure.supxlabel(text, x=0.01, ha="left", fontsize=10.5, parse_math=False)
        with replacing(path) as temporary:
            _save(figure, temporary, path.suffix[1:].lower())


def panel_svgs(report: EtaReport, statistics: EtaStatistics) -> list[bytes]:
    """Draw each panel for itself.

    Args:
        report: The scored corpus, and a and k.
        statistics: What was computed of it.

    Returns:
        Four SVG files.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    files = []
    with _drawing() as figure_type:
        for draw in _panels(report, statistics):
            figure = figure_type(figsize=(5.7, 4.6), layout="constrained")
            draw(figure.add_subplot())
            buffer = io.BytesIO()
            _save(figure, buffer, "svg")
            files.append(buffer.getvalue())
    return files
