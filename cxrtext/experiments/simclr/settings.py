"""What a training on views is given: images with what is known of them, and how to train."""

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from cxrtext.config import (
    Conditional,
    Contrast,
    DclEtaTrue,
    ObjectiveSection,
    Supervised,
    WithKernel,
)
from cxrtext.errors import ConfigError
from cxrtext.experiments.simclr.encoders import SMALL_ENCODERS
from cxrtext.images.simclr import SimclrSpec
from cxrtext.training.loop.device import DTYPES
from cxrtext.training.losses.metadata import Kind

BY_ANCHOR = ("info-nce", "dcl-eta", "dcl-eta-true", "hard-negative", "positive-debiased")
"""Objectives of single positives, which know several of them and the removal of negatives."""
BY_VIEW = ("weaksup-info-nce", "fair-info-nce", "y-aware", "conditional-alignment-uniformity")
BY_KERNEL = ("weaksup-cclk", "fair-cclk", "hardneg-cclk")
NAMES = (*BY_ANCHOR, "supervised", "alignment-uniformity", *BY_VIEW, *BY_KERNEL)
"""Names of :class:`~cxrtext.config.ObjectiveSection` that need no text."""
GROUPED = ("dcl-eta", "dcl-eta-true", "positive-debiased")
"""Objectives that can take several positives into their estimate."""
OPTIMIZERS = ("adam", "adamw", "lars")
FREE = ("save_every", "log_every")
"""Settings that a resumed run may have otherwise."""


@dataclass(frozen=True)
class ViewSet:
    """8-bit images [n, 1 or 3, H, W] in memory and what is known of them.

    ``labels`` [n], int64: classes, for supervised, and for removing negatives of the same class.
    ``eta`` [n], float32: the probability of each image's class, for dcl-eta-true.  ``metadata``
    [n, M], float32: standardized numbers and categories as whole numbers, a kind a column; or
    clusters in column 0, for weaksup-info-nce and fair-info-nce.
    """

    images: Tensor
    labels: Tensor | None = None
    eta: Tensor | None = None
    metadata: Tensor | None = None
    kinds: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != torch.uint8:
            raise ValueError(
                f"images must be [n, C, H, W] of uint8, got {tuple(self.images.shape)} of "
                f"{self.images.dtype}"
            )
        for name, dtype in (("labels", torch.int64), ("eta", torch.float32)):
            value: Tensor | None = getattr(self, name)
            if value is not None and (value.shape != self.images.shape[:1] or value.dtype != dtype):
                raise ValueError(
                    f"{name} must be [{len(self)}] of {dtype}, got {tuple(value.shape)} of "
                    f"{value.dtype}"
                )
        if self.metadata is not None and (
            self.metadata.shape != (len(self), len(self.kinds))
            or self.metadata.dtype != torch.float32
        ):
            raise ValueError(
                f"metadata must be [{len(self)}, {len(self.kinds)}] of float32, one kind a "
                f"column, got {tuple(self.metadata.shape)} of {self.metadata.dtype}"
            )

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class ViewSettings:
    """How to train an encoder on views of images.

    The objective's name is one of :data:`NAMES`; encoder and width are those of
    :func:`~cxrtext.experiments.simclr.encoders.build_small_encoder`; ``head`` has the sizes of the
    projection head's linear maps, the last D, and batch norms where ``head_norm``.  ``gamma_sq``
    is γ², one over the temperature; fixed.  ``positives`` is M, views of an image beside the
    anchor: ``aggregate`` "loss" averages the losses with each as the positive, "group" takes all
    into the loss's estimate.  ``without_same_class`` leaves out negatives of the anchor's class.
    The optimizer is Adam with L2, AdamW, or LARS with momentum 0.9; biases and norms do not decay.
    ``warmup`` steps are linear; ``seed`` is of everything that is drawn; a state is saved and a
    line of ``metrics.jsonl`` written every so many steps.
    """

    objective: ObjectiveSection
    encoder: str
    width: int
    head: tuple[int, ...]
    steps: int
    batch: int
    lr: float
    gamma_sq: float = 2.0
    positives: int = 1
    aggregate: Literal["loss", "group"] = "loss"
    without_same_class: bool = False
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    augmentation: SimclrSpec = field(default_factory=SimclrSpec)
    precision: str = "float32"
    seed: int = 0
    save_every: int = 1000
    log_every: int = 50
    head_norm: bool = False

    def deciding(self) -> dict[str, Any]:
        """What must be equal to resume a run, as nested numbers and texts."""
        plain = asdict(self) | {"objective": self.objective.model_dump(mode="json")}
        kept = {key: value for key, value in plain.items() if key not in FREE}
        listed: dict[str, Any] = json.loads(json.dumps(kept))  # tuples come back as lists
        return listed


def check(data: ViewSet, settings: ViewSettings) -> None:
    """Refuse what cannot be trained."""
    _check_numbers(settings)
    _check_choices(settings)
    if settings.batch > len(data):
        raise ConfigError(
            f"batch: {settings.batch} images of {len(data)}; give a batch of {len(data)} or fewer"
        )
    _check_data(data, settings)


def _check_numbers(settings: ViewSettings) -> None:
    least = {"steps": 1, "batch": 2, "positives": 1, "save_every": 1, "log_every": 1}
    for name, value in (least | {"warmup": 0, "weight_decay": 0, "seed": 0}).items():
        if getattr(settings, name) < value:
            raise ConfigError(
                f"{name}: {getattr(settings, name)} is below {value}; give that or more"
            )
    for name in ("lr", "gamma_sq"):
        if not 0 < getattr(settings, name) < math.inf:
            raise ConfigError(f"{name}: {getattr(settings, name)} is not above 0 and finite")


def _check_choices(settings: ViewSettings) -> None:
    for name, choices in (
        ("aggregate", ("loss", "group")),
        ("optimizer", OPTIMIZERS),
        ("schedule", ("constant", "cosine")),
        ("precision", ("float32", *DTYPES)),
        ("encoder", SMALL_ENCODERS),
    ):
        if getattr(settings, name) not in choices:
            raise ConfigError(f"{name}: '{getattr(settings, name)}'; take {' or '.join(choices)}")
    name = settings.objective.name
    for wrong, choices, what in (
        (True, NAMES, "views of images alone"),
        (settings.positives > 1, BY_ANCHOR, "several positives"),
        (settings.positives > 1 and settings.aggregate == "group", GROUPED, "grouped positives"),
        (settings.without_same_class, BY_ANCHOR, "without_same_class"),
    ):
        if wrong and name not in choices:
            raise ConfigError(
                f"objective.name: {name} knows no {what}; take one of {', '.join(choices)}"
            )


def _check_data(data: ViewSet, settings: ViewSettings) -> None:
    section = settings.objective
    for key in ("labels", "findings", "true_probability"):
        if getattr(section, key, None) is not None:
            raise ConfigError(
                f"objective.{key}: is of tables of studies; what is known of images in memory is "
                "given with them; remove it"
            )
    if isinstance(section, Contrast) and section.symmetric:
        raise ConfigError("objective.symmetric: views are contrasted both ways already; remove it")
    needs = {
        "labels": isinstance(section, Supervised) or settings.without_same_class,
        "eta": isinstance(section, DclEtaTrue),
        "metadata": isinstance(section, Conditional),
    }
    for key, wanted in needs.items():
        if wanted and getattr(data, key) is None:
            raise ConfigError(f"objective.name: {section.name} needs the images' {key}; give them")
    if isinstance(section, WithKernel) and len(data.kinds) != len(section.condition):
        raise ConfigError(
            f"objective.condition: {len(section.condition)} column(s) are named, and the images "
            f"have {len(data.kinds)}; name each"
        )
