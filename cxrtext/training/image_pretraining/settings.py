"""Settings for pre-training an image encoder; without torch, so bad options are refused early."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cxrtext.errors import ConfigError

Method = Literal["words", "labels"]

RESNETS = ("resnet18", "resnet50", "resnet50-half", "resnet-narrow")
EPOCHS, LEAST_STEPS, MOST_EPOCHS = 12, 600, 100
TUNED_EPOCHS, LEAST_TUNED = 5, 300
"""The default is so many epochs (fewer if the network begins from weights); with few images, enough
for so many steps, but at most :data:`MOST_EPOCHS`."""
FREE = ("save_every",)  # settings that may change when a run is resumed


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
    # one, None chooses by whether there are initial weights
    lr: float | None = None
    warmup: int | None = None  # steps of the warm-up
    seed: int = 0  # of everything drawn
    # "auto" (bfloat16 if the device multiplies it faster), or one of training's
    precision: str = "auto"
    save_every: int = 200

    def pace(self) -> tuple[float, int, float]:
        """The highest learning rate, the warm-up, and the weight decay of matrices and kernels."""
        lr, warmup, decay = (3e-4, 60, 0.05) if self.weights else (2e-3, 30, 0.01)
        warmup = warmup if self.warmup is None else self.warmup
        return lr if self.lr is None else self.lr, warmup, decay

    def to_dict(self) -> dict[str, Any]:
        """All settings with defaults filled in; ``epochs`` as given."""
        lr, warmup, decay = self.pace()
        weights = None if self.weights is None else str(self.weights)
        chosen = {"lr": lr, "warmup": warmup, "weight_decay": decay, "weights": weights}
        return asdict(self) | chosen

    def deciding(self) -> dict[str, Any]:
        """The settings that must be equal to resume a run."""
        return {key: value for key, value in self.to_dict().items() if key not in FREE}

    def steps(self, images: int) -> int:
        epoch = images // self.batch
        if self.epochs is not None:
            return self.epochs * epoch
        usual, least = (TUNED_EPOCHS, LEAST_TUNED) if self.weights else (EPOCHS, LEAST_STEPS)
        return epoch * min(max(usual, math.ceil(least / epoch)), MOST_EPOCHS)


def check_settings(settings: ImagePretrainSettings) -> None:
    """Refuse wrong settings (ConfigError that names the option)."""
    if settings.image not in RESNETS:
        raise ConfigError(f"image: '{settings.image}' is not one of {', '.join(RESNETS)}")
    if not 1 <= settings.crop <= settings.resize:
        raise ConfigError(f"crop: {settings.crop} is not between 1 and resize, {settings.resize}")
    values = settings.to_dict()
    least = {"batch": 2, "warmup": 0, "seed": 0, "save_every": 1, "epochs": 1}
    for name, value in least.items():
        if values[name] is not None and values[name] < value:
            raise ConfigError(f"{name}: {values[name]} is below {value}; give that or more")
    if not 0 < values["lr"] < math.inf:
        raise ConfigError(f"lr: {values['lr']} is not above 0 and finite")


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
