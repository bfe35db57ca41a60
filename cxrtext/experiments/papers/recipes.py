"""What the papers' experiments on small images share: rows, recipes and the smaller scales."""

from collections.abc import Mapping
from typing import Any

from cxrtext.experiments.experiment import SCALES, Scale, Settings, Trial

LARGE = ("gpu", "paper")

ADAM: Settings = {
    "encoder": "resnet18", "width": 64, "head": (512, 128), "optimizer": "adam", "lr": 1e-3,
    "weight_decay": 1e-6, "gamma_sq": 2.0,
}  # fmt: skip
"""SSD's recipe for CIFAR-10."""

LARS: Settings = {
    "encoder": "resnet50", "width": 64, "head": (2048, 2048, 128), "head_norm": True,
    "optimizer": "lars", "schedule": "cosine", "weight_decay": 1e-6,
}  # fmt: skip
"""CCL-K's recipe for photographs."""
RESNET18: Settings = {"encoder": "resnet18", "optimizer": "adam", "lr": 1e-3}
"""In place of CCL-K's encoder and optimizer, which want long training."""
RADIOGRAPHS: Settings = {"augmentation": {"scale": (0.5, 1.0), "flip": 0.0, "gray": 0.0}}
"""Drawn radiographs have no mirror and no color, and a small crop of one lacks the finding."""


def row(
    name: str,
    title: str,
    objective: str,
    paper: Mapping[str, float] | None = None,
    *,
    scales: tuple[str, ...] = SCALES,
    settings: Settings | None = None,
    **keys: Any,
) -> Trial:
    own = {"objective": {"name": objective, **keys}, **(settings or {})}
    return Trial(name, title, own, paper or {}, scales)


def smoke(train: int | None = None, settings: Settings | None = None, studies: int = 0) -> Scale:
    """Three steps; ``train`` images of a set that is given."""
    own = {**(settings or {}), "width": 2, "head": (16, 8), "batch": 16, "steps": 3}
    test = None if train is None else 100
    return Scale(own, train=train, test=test, studies=studies, epochs=2, steps=5, device="cpu")


def cpu(
    steps: int, settings: Settings | None = None, train: int | None = 10_000, studies: int = 0
) -> Scale:
    own = {**(settings or {}), "width": 16, "head": (128, 128), "batch": 64, "steps": steps}
    return Scale(own, train=train, studies=studies, device="cpu")
