"""Settings for pre-training an image encoder; without torch, so bad options are refused early."""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cxrtext.errors import ConfigError

Method = Literal["words", "labels"]

LEAST_STEPS, LEAST_TUNED, MOST_EPOCHS = 600, 300, 100
"""With few images, the default is enough epochs for this many steps (fewer if the network begins
from weights), but at most the last number of epochs."""
FREE = ("save_every", "log_every")  # settings that may change when a run is resumed


RESNETS = ("resnet18", "resnet50", "resnet50-half", "resnet-narrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How long and how fast a network is trained; see :class:`ImagePretrainSettings`."""

    epochs: int
    lr: float
    warmup: int
    weight_decay: float


_RESNET = Recipe(epochs=12, lr=2e-3, warmup=30, weight_decay=0.01)
_TUNED = Recipe(epochs=5, lr=3e-4, warmup=60, weight_decay=0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePretrainSettings:
    """Everything that the encoder depends on except the data."""

    image: str = "resnet18"  # like model.image in the training that starts from it
    weights: Path | None = None  # initial weights, like model.image_weights
    resize: int = 512  # shorter side of a decoded image, in pixels
    crop: int = 480  # side of the cut-out window, in pixels, a multiple of the stride
    epochs: int | None = None  # passes over the images; None chooses by their number
    # images per step; in the same time, many small steps learn more than few large ones
    batch: int = 32
    # highest learning rate, after a linear warm-up and before a cosine to 0.  For this and the next
    # two, None chooses by whether there are initial weights
    lr: float | None = None
    warmup: int | None = None  # steps of the warm-up
    weight_decay: float | None = None  # of matrices and kernels
    brightness: float = 0.1  # largest change of gray values in [0, 1]
    contrast: float = 0.1  # largest relative change of the contrast
    seed: int = 0  # of everything drawn
    sides: bool = True  # whether to learn words also by side, from each half of the image
    # "auto" (bfloat16 if the device multiplies it faster), or one of training's
    precision: str = "auto"
    save_every: int = 200
    log_every: int = 10

    def recipe(self) -> Recipe:
        """The given values, with defaults for the others."""
        given = {key: getattr(self, key) for key in Recipe.__slots__}
        usual = _TUNED if self.weights else _RESNET
        return replace(usual, **{key: value for key, value in given.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """All settings with defaults filled in; ``epochs`` as given."""
        weights = None if self.weights is None else str(self.weights)
        return asdict(self) | asdict(self.recipe()) | {"epochs": self.epochs, "weights": weights}

    def deciding(self) -> dict[str, Any]:
        """The settings that must be equal to resume a run."""
        return {key: value for key, value in self.to_dict().items() if key not in FREE}

    def steps(self, images: int) -> int:
        epoch = images // self.batch
        if self.epochs is not None:
            return self.epochs * epoch
        least = LEAST_TUNED if self.weights else LEAST_STEPS
        return epoch * min(max(self.recipe().epochs, math.ceil(least / epoch)), MOST_EPOCHS)


def check_settings(settings: ImagePretrainSettings) -> None:
    """Refuse wrong settings (ConfigError that names the option)."""
    if settings.image not in RESNETS:
        raise ConfigError(f"image: '{settings.image}' is not one of {', '.join(RESNETS)}")
    if not 1 <= settings.crop <= settings.resize:
        raise ConfigError(f"crop: {settings.crop} is not between 1 and resize, {settings.resize}")
    values = asdict(settings) | asdict(settings.recipe())
    least = {"batch": 2, "warmup": 0, "seed": 0, "save_every": 1, "log_every": 1, "epochs": 1}
    for name, value in least.items():
        if values[name] < value:
            raise ConfigError(f"{name}: {values[name]} is below {value}; give that or more")
    if not 0 < values["lr"] < math.inf:
        raise ConfigError(f"lr: {values['lr']} is not above 0 and finite")
    for name in ("weight_decay", "brightness", "contrast"):
        if not 0 <= values[name] < math.inf:
            raise ConfigError(f"{name}: {values[name]} is not 0 or more and finite")
    if settings.precision not in ("auto", "float32", "bfloat16", "float16"):
        raise ConfigError(
            f"precision: '{settings.precision}' is not auto, float32, bfloat16 or float16"
        )


def check_output(out: Path, resume: bool) -> None:
    """Refuse a folder that has a run, unless it is resumed (ConfigError)."""
    is_begun = (out / "state").exists()
    if is_begun and not resume:
        raise ConfigError(
            f"{out}: holds a training run already; continue it with --resume, or name another "
            "folder"
        )
    if resume and not is_begun:
        raise ConfigError(f"{out}: holds no run to resume; leave --resume out")
