"""The sets of small images that trainings share: made once, in the experiment's folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import ConfigError, DataError
from cxrtext.experiments.data.images import (
    Array,
    Classes,
    Floats,
    ImageSet,
    Labelled,
    Pixels,
    SmallImages,
    SplitImages,
    first_of_each_class,
    write_set,
)
from cxrtext.experiments.data.phantoms import draw_images, phantom_set
from cxrtext.experiments.data.read import ACCEPTED, read_small_images
from cxrtext.experiments.experiment import Experiment, ExperimentListener, Scale
from cxrtext.experiments.stages import stage

SEED = 0
"""Draws CIFAR10-r and the colors: the same in all runs, whose own seeds are of the training."""
PHANTOMS = "phantoms-"
CIFAR10_R = "cifar10-r-"
THINNED = ("dog", "frog", "horse", "ship", "truck")
"""The classes of CIFAR10-r of which only a fraction is kept."""
DIGIT = 128
"""Gray value from which on a pixel of MNIST belongs to the stroke."""
SIDE = 32


def cifar10_r(
    labels: Classes, names: tuple[str, ...], fraction: float, generator: np.random.Generator
) -> tuple[NDArray[np.intp], Floats]:
    """Rows of CIFAR10-r and each one's true class probability.

    ``fraction`` is r, in (0, 1]: how much of dog, frog, horse, ship and truck is kept.  Rows [m]
    are in ascending order, η [m] is the share of each row's class in the subset, 0.2 r / (1 + r)
    or 0.2 / (1 + r) where all classes are equally large.

    Source: Wang et al. 2023 (sample-specific debiasing), section 3.1.
    """
    kept = []
    for code, name in enumerate(names):
        rows = np.flatnonzero(labels == code)
        if not len(rows):
            raise ValueError(f"there is no image of class '{name}'")
        if name in THINNED:
            rows = generator.permutation(rows)[: max(1, round(fraction * len(rows)))]
        kept.append(rows)
    chosen = np.sort(np.concatenate(kept))
    share = np.bincount(labels[chosen], minlength=len(names)) / len(chosen)
    return chosen, share[labels[chosen]].astype(np.float32)


def color_mnist(digits: Pixels, generator: np.random.Generator) -> tuple[Pixels, Floats]:
    """MNIST with a background of random color: 32 × 32, the stroke black.

    White strokes [n, 1, 28, 28] give images [n, 3, 32, 32] and the red, green and blue of each
    background, [n, 3], 0 to 255, uniform.

    Source: Tsai et al. 2022 (CCL-K), section 4.2 and appendix F.4; the margin of two pixels and
    the threshold of half the range are ours.
    """
    colors = generator.integers(0, 256, (len(digits), 3)).astype(np.uint8)
    margin = (SIDE - digits.shape[-1]) // 2
    stroke = np.pad(digits, ((0, 0), (0, 0), (margin, margin), (margin, margin))) >= DIGIT
    return np.where(stroke, np.uint8(0), colors[:, :, None, None]), colors.astype(np.float32)


def require_data(experiment: Experiment, names: Iterable[str], data: Path | None) -> None:
    if experiment.given is None or all(name.startswith(PHANTOMS) for name in names):
        return
    if data is None:
        raise ConfigError(f"{experiment.name}: give {experiment.given} with --data: {ACCEPTED}")
    if not data.is_file():
        raise DataError(f"{data}: not a file; --data takes {ACCEPTED}")


def _classes(part: Labelled) -> SplitImages:
    return SplitImages(part.images, np.arange(len(part.labels)), {"class": part.labels})


def _cifar10(given: SmallImages, fraction: float | None) -> ImageSet:
    train, eta = given.train, None
    if fraction is not None:
        generator = np.random.default_rng([SEED, round(1000 * fraction)])
        rows, eta = cifar10_r(train.labels, given.names, fraction, generator)
        train = Labelled(train.images[rows], train.labels[rows])
    return ImageSet(
        train=_classes(train),
        test=_classes(given.test),
        labels=train.labels,
        eta=eta,
        metadata=train.labels[:, None].astype(np.float32),
        kinds=("category",),
        columns=("class",),
        names=given.names,
    )


def _color_mnist(given: SmallImages) -> ImageSet:
    parts = []
    for key, (images, labels) in enumerate((given.train, given.test)):
        colored, colors = color_mnist(images, np.random.default_rng([SEED, 9, key]))
        targets: dict[str, Array] = {"class": labels, "color": colors}
        parts.append(SplitImages(colored, np.arange(len(labels)), targets))
    colors = parts[0].targets["color"].astype(np.float32)
    return ImageSet(
        train=parts[0],
        test=parts[1],
        labels=given.train.labels,
        # Not centered: about their mean, colors have a cosine that no constant can follow, and
        # Fair-CCLK's estimate then falls to its floor when all images are embedded alike.
        metadata=colors / colors.std(axis=0),
        kinds=("number",) * 3,
        columns=("red", "green", "blue"),
        names=given.names,
    )


def _make(name: str, given: SmallImages | None, phantoms: Path, scale: Scale) -> ImageSet:
    if name.startswith(PHANTOMS):
        return phantom_set(phantoms, scale.studies, scale.side, name.removeprefix(PHANTOMS))
    if given is None:
        raise ValueError(f"{name} wants a set that is given")
    if name.startswith(CIFAR10_R):
        return _cifar10(given, float(name.removeprefix(CIFAR10_R)))
    return _cifar10(given, None) if name == "cifar10" else _color_mnist(given)


def prepare_sets(
    experiment: Experiment,
    names: Iterable[str],
    data: Path | None,
    scale: Scale,
    out: Path,
    listener: ExperimentListener,
) -> tuple[dict[str, Path], dict[str, dict[str, Any]]]:
    wanted = list(dict.fromkeys(names))
    paths = {name: out / "data" / f"{name}.npz" for name in wanted}
    notes: dict[str, dict[str, Any]] = {}
    phantoms = out / "phantoms"
    given: list[SmallImages] = []

    def work(name: str) -> dict[str, Any]:
        if not (given or data is None or name.startswith(PHANTOMS) or experiment.given is None):
            listener.say(f"reading {data}")
            whole = read_small_images(data, experiment.given)
            given.append(first_of_each_class(whole, scale.train, scale.test))
        made = _make(name, given[0] if given else None, phantoms, scale)
        write_set(paths[name], made)
        return {"training images": len(made.train.images), "test images": len(made.test.images)}

    # What is given comes first: a wrong file is said before anything is drawn.
    for name in sorted(wanted, key=lambda name: name.startswith(PHANTOMS)):
        if name.startswith(PHANTOMS) and "phantoms" not in notes:
            notes["phantoms"] = stage(
                out,
                "phantoms",
                phantoms / "manifest.csv",
                lambda: draw_images(phantoms, scale.studies, listener),
            )
        notes[name] = stage(out, name, paths[name], lambda name=name: work(name))  # type: ignore[misc]
    return paths, notes
