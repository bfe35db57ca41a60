"""A run in one picture: ``curves.png``."""

import json
from collections import defaultdict
from pathlib import Path

from cxrtext.files import replacing

PANELS = (
    ("loss", ("train/loss", "val/loss")),
    ("accuracy and retrieval", ("train/accuracy", "val/accuracy", "val/R@1", "val/R@5")),
    ("zero-shot AUC", ("val/auc",)),
    ("entropy of attention", ("val/entropy",)),
    ("γ² and share at the floor", ("train/gamma_sq", "train/floored")),
    ("learning rate", ("train/lr",)),
)
"""Titles, and the measures drawn under each."""


def read_metrics(path: Path) -> dict[str, tuple[list[int], list[float]]]:
    """Steps and values of each measure in a ``metrics.jsonl``, as ``train/loss``."""
    found: dict[str, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            values = json.loads(line)
            kind, step = str(values.pop("kind")), int(values.pop("step"))
            numbers = {str(name): float(value) for name, value in values.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a log for people: a damaged line is left out
        for name, value in numbers.items():
            steps, series = found[f"{kind}/{name}"]
            steps.append(step)
            series.append(value)
    return dict(found)


def draw_curves(folder: Path) -> Path | None:
    """Draw a run's measures over its steps.

    Args:
        folder: The run's folder, with ``metrics.jsonl``.

    Returns:
        The picture, or None where matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    measures = read_metrics(folder / "metrics.jsonl")
    panels = [
        (title, present)
        for title, names in PANELS
        if (present := [name for name in names if name in measures])
    ]
    figure = Figure(figsize=(12, 3.2 * ((len(panels) + 1) // 2)), layout="constrained")
    for place, (title, names) in enumerate(panels, 1):
        axes = figure.add_subplot((len(panels) + 1) // 2, 2, place)
        for name in names:
            steps, series = measures[name]
            axes.plot(steps, series, label=name, marker="." if len(steps) < 30 else "")
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.legend()
    path = folder / "curves.png"
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110)
    return path
