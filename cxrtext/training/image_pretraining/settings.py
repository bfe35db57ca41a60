"""What an image encoder is pre-trained with; imports no torch: bad options are refused early."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from cxrtext.config import ModelSection
from cxrtext.errors import ConfigError

Method = Literal["words", "labels", "views"]

EPOCHS, LEAST_STEPS, MOST_EPOCHS = 12, 600, 100
"""Default epochs: so many, or on few images as many as make this number of steps, to a limit."""
FREE = ("save_every", "log_every")
"""Settings that a resumed run may have otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePretrainSettings:
    """Everything that the encoder depends on, beside the data.

    Args:
        image: The architecture, as ``model.image`` of the training that starts from it.
        resize: Shorter side of a decoded image, in pixels.
        crop: Side of the window that is cut out, in pixels, a multiple of the stride.
        epochs: Passes over the images; None chooses by their number.
        batch: Images a step; in the same time many small steps learn more than few large ones.
        lr: Highest learning rate, after a linear warm-up; a cosine to zero follows.
        warmup: Steps of the warm-up.
        weight_decay: Of matrices and kernels.
        brightness: Largest change of gray values in [0, 1].
        contrast: Largest relative change of the contrast.
        gamma_sq: What the cosines of views are multiplied by; for views alone.
        seed: Of everything drawn.
        sides: Whether words are also asked for by side, of each half of the image.
        precision: "auto" (bfloat16 where the device multiplies it faster), or one of training's.
    """

    image: str = "resnet18"
    resize: int = 512
    crop: int = 480
    epochs: int | None = None
    batch: int = 32
    lr: float = 2e-3
    warmup: int = 30
    weight_decay: float = 0.01
    brightness: float = 0.1
    contrast: float = 0.1
    gamma_sq: float = 10.0
    seed: int = 0
    sides: bool = True
    precision: str = "auto"
    save_every: int = 200
    log_every: int = 10

    def deciding(self) -> dict[str, Any]:
        """What must be equal to resume a run."""
        return {key: value for key, value in asdict(self).items() if key not in FREE}

    def steps(self, images: int) -> int:
        """Steps on so many images."""
        epoch = images // self.batch
        if self.epochs is not None:
            return self.epochs * epoch
        return epoch * min(max(EPOCHS, math.ceil(LEAST_STEPS / epoch)), MOST_EPOCHS)


def check_settings(settings: ImagePretrainSettings) -> None:
    """Refuse what cannot be trained (ConfigError, naming the option)."""
    architectures = get_args(ModelSection.model_fields["image"].annotation)
    if settings.image not in architectures:
        raise ConfigError(f"image: '{settings.image}' is not one of {', '.join(architectures)}")
    if not 1 <= settings.crop <= settings.resize:
        raise ConfigError(f"crop: {settings.crop} is not between 1 and resize, {settings.resize}")
    least = {"batch": 2, "warmup": 0, "seed": 0, "save_every": 1, "log_every": 1}
    for name, value in (least | ({"epochs": 1} if settings.epochs is not None else {})).items():
        if getattr(settings, name) < value:
            raise ConfigError(
                f"{name}: {getattr(settings, name)} is below {value}; give that or more"
            )
    for name in ("lr", "gamma_sq"):
        if not 0 < getattr(settings, name) < math.inf:
            raise ConfigError(f"{name}: {getattr(settings, name)} is not above 0 and finite")
    for name in ("weight_decay", "brightness", "contrast"):
        if not 0 <= getattr(settings, name) < math.inf:
            raise ConfigError(f"{name}: {getattr(settings, name)} is not 0 or more and finite")
    if settings.precision not in ("auto", "float32", "bfloat16", "float16"):
        raise ConfigError(
            f"precision: '{settings.precision}' is not auto, float32, bfloat16 or float16"
        )


def check_output(out: Path, resume: bool) -> None:
    """Refuse a folder that holds a run, unless it is to be resumed (ConfigError)."""
    if not resume and (out / "state").exists():
        raise ConfigError(
            f"{out}: holds a training run already; go on with it with --resume, or name another "
            "folder"
        )
    if resume and not (out / "state").exists():
        raise ConfigError(f"{out}: holds no run to resume; leave --resume out")
