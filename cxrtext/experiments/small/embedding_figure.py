"""t-SNE of learned features on CIFAR10-0.1, as SSD figure 4."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxrtext.datasets.small.images import CIFAR10
from cxrtext.datasets.small.subsets import THINNED
from cxrtext.errors import DataError
from cxrtext.experiments.runs import METRICS
from cxrtext.files import DAMAGED_ARCHIVE, replacing

ROWS = (("cl-0.1", "CL"), ("dcl-high-0.1", "DCL-η_High"), ("dcl-true-0.1", "DCL-η_True"))
"""The paper's three panels."""


def _colors() -> dict[str, tuple[float, ...]]:
    """Shades of red for the thinned classes, of blue for the others."""
    from matplotlib import colormaps

    found: dict[str, tuple[float, ...]] = {}
    for names, name in (
        (THINNED, "Reds"),
        (tuple(one for one in CIFAR10 if one not in THINNED), "Blues"),
    ):
        for i, one in enumerate(names):
            found[one] = tuple(colormaps[name](0.4 + 0.6 * i / (len(names) - 1)))
    return found


def _placed(path: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from sklearn.manifold import TSNE

    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as held:
            features, classes = held["features"], held["classes"]
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not readable ({type(error).__name__}); remove its folder's {METRICS}, and "
            "the command measures again"
        ) from None
    perplexity = min(30.0, (len(features) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(features)
    return points, classes


def draw_embeddings(out: Path, path: Path) -> tuple[Path | None, str]:
    """Draw the test images' features of the first seed, unless the picture is newer than they.

    Args:
        out: The experiment's folder.
        path: The picture.

    Returns:
        The picture and "", or None and why it is left out.
    """
    runs = [(out / "runs" / name / "seed-0" / "features.npz", title) for name, title in ROWS]
    there = [(features, title) for features, title in runs if features.is_file()]
    if not there:
        return None, "the t-SNE figure: no row of CIFAR10-0.1 was measured"
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return None, "the t-SNE figure: scikit-learn is not installed"
    newest = max(features.stat().st_mtime_ns for features, _ in there)
    if path.is_file() and path.stat().st_mtime_ns > newest:
        return path, ""
    _draw(there, path)
    return path, ""


def _draw(there: list[tuple[Path, str]], path: Path) -> None:
    from matplotlib.figure import Figure

    colors = _colors()
    figure = Figure(figsize=(4.2 * len(there), 4.9), layout="constrained")
    panels = figure.subplots(1, len(there), squeeze=False)[0]
    for axes, (features, title) in zip(panels, there, strict=True):
        points, classes = _placed(features)
        for code, name in enumerate(CIFAR10):
            own = points[classes == code]
            axes.scatter(own[:, 0], own[:, 1], s=6, color=colors[name], label=name)
        axes.set_title(title, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("t-SNE of the test images' features")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=5, frameon=False, markerscale=3
    )
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
