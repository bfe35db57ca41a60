"""How much data an experiment takes, and how long every row trains: the same for all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cxrtext.errors import ConfigError
from cxrtext.models.hub import DEFAULT_MODEL


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale.

    Args:
        studies: Phantoms to draw; 0 where the data must be given.
        size: Pixels along their sides.
        language_model: What ``pretrain_text`` is given, or the hub id of a model that is taken
            as it is.
        config: Sections of the training configuration that all rows share.
        split: What is measured on.
        resamples: Of the bootstrap.
    """

    studies: int
    size: int
    language_model: Mapping[str, Any] | str
    config: Mapping[str, Mapping[str, Any]]
    split: str = "test"
    resamples: int = 2000


SCALES = {
    # So few patients are held out that a finding may be missing among them: "all" is measured.
    "smoke": Scale(
        studies=60,
        size=64,
        language_model={
            "vocabulary_size": 300,
            "hidden": 32,
            "layers": 1,
            "heads": 2,
            "epochs": 1,
        },
        config={
            "data": {"resize": 64, "crop": 48},
            "model": {"image": "resnet-narrow", "dimension": 16},
            "training": {
                "steps": 8,
                "batch": 16,
                "sentences": 2,
                "lr": 1e-3,
                "warmup": 2,
                "precision": "float32",
                "device": "cpu",
                "log_every": 2,
                "validate_every": 4,
                "save_every": 2,
            },
        },
        split="all",
        resamples=200,
    ),
    "cpu": Scale(
        studies=4000,
        size=128,
        language_model={"size": "demo"},
        config={
            "data": {"resize": 128, "crop": 112},
            "model": {"image": "resnet-narrow"},
            "training": {
                "steps": 800,
                "batch": 64,
                "sentences": 6,
                "lr": 3e-3,
                "warmup": 40,
                "precision": "float32",
                "device": "cpu",
                "log_every": 10,
                "validate_every": 200,
                "save_every": 100,
            },
        },
    ),
    "gpu": Scale(
        studies=20_000,
        size=256,
        language_model={"size": "compact"},
        config={
            "data": {"resize": 256, "crop": 224},
            "model": {"image": "resnet18"},
            "training": {
                "steps": 4000,
                "batch": 256,
                "sentences": 6,
                "lr": 1e-3,
                "warmup": 200,
                "precision": "bfloat16",
                "device": "auto",
                "log_every": 20,
                "validate_every": 500,
                "save_every": 200,
            },
        },
    ),
    # SSD section 3.2; the defaults of the configuration are the paper's, written out here.
    "paper": Scale(
        studies=0,
        size=0,
        language_model=DEFAULT_MODEL,
        config={
            "data": {"resize": 512, "crop": 480},
            "model": {"image": "resnet18", "dimension": 128},
            "training": {
                "steps": 20_000,
                "batch": 64,
                "sentences": 1,
                "lr": 1e-5,
                "warmup": 2000,
                "precision": "auto",
                "device": "auto",
                "log_every": 20,
                "validate_every": 500,
                "save_every": 500,
            },
        },
    ),
}


def scale_named(name: str) -> Scale:
    """The scale of a name.

    Raises:
        ConfigError: There is none.
    """
    if name not in SCALES:
        raise ConfigError(f"--scale {name}: is not one of {', '.join(SCALES)}")
    return SCALES[name]
