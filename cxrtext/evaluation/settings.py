"""How an evaluation is done, apart from what it is done on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, get_args

from cxrtext.errors import ConfigError
from cxrtext.evaluation.comparison import PRIMARY
from cxrtext.metrics.ranking import Uncertain

SLICE_COLUMNS = ("sex", "age", "view", "site")
"""Columns of a manifest by which the AUC is measured, as far as it has them."""

TRUTH = "truthAUC"
"""See :mod:`cxrtext.evaluation.truth`."""
TRUTH_BINS = {
    f"{TRUTH}, ρ < .1": (0.0, 0.1 - 1e-9),
    f"{TRUTH}, ρ .1–.5": (0.1, 0.5),
    f"{TRUTH}, ρ > .5": (0.5 + 1e-9, 1.0),
}
"""Parts of the sentences, by the probability ρ that they are true of a random study."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How an evaluation is done.

    Args:
        uncertain: What the label −1 counts as; "ignore" leaves it out.
        calibrate: Whether validation images are embedded too, which choose the threshold and the
            temperature.
        boxes: A box file; by default ``boxes.json``, ``.csv`` or ``.parquet`` of the data folder.
        slices: Columns of the manifest; "age" is taken in bands.
        probe: Whether linear probes are fitted to the training images.
        sensitivity: That of a second operating point, beside Youden's; above 0, at most 1.
        primary: The one measure that decides, declared before the figures are seen; named as in
            a comparison.
    """

    uncertain: Uncertain = "ignore"
    calibrate: bool = True
    boxes: Path | None = None
    slices: tuple[str, ...] = SLICE_COLUMNS
    probe: bool = False
    sensitivity: float = 0.95
    primary: str = PRIMARY

    def __post_init__(self) -> None:
        if self.uncertain not in (known := get_args(Uncertain)):
            raise ConfigError(f"--uncertain: '{self.uncertain}' is not one of {', '.join(known)}")
        if not 0 < self.sensitivity <= 1:
            raise ConfigError(
                f"--sensitivity: {self.sensitivity} is not above 0 and at most 1; give a share"
            )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "boxes": str(self.boxes) if self.boxes else None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From what :meth:`to_dict` gave; what is not said is as by default."""
        boxes = Path(values["boxes"]) if values.get("boxes") else None
        slices = tuple(values.get("slices", SLICE_COLUMNS))
        return cls(**{**values, "boxes": boxes, "slices": slices})
