"""How an evaluation is done, whatever the model and the data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, get_args

from cxrtext.errors import ConfigError
from cxrtext.evaluation.comparison import PRIMARY
from cxrtext.metrics.ranking import Uncertain

SLICE_COLUMNS = ("sex", "age", "view", "site")
"""Manifest columns that split the AUC by group, if the manifest has them."""

TRUTH = "truthAUC"
"""See :mod:`cxrtext.evaluation.truth`."""
TRUTH_BINS = {
    f"{TRUTH}, ρ < .1": (0.0, 0.1 - 1e-9),
    f"{TRUTH}, ρ .1–.5": (0.1, 0.5),
    f"{TRUTH}, ρ > .5": (0.5 + 1e-9, 1.0),
}
"""Parts of the sentences by the probability ρ that they are true of a random study."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How an evaluation is done.

    Args:
        uncertain: What the label −1 counts as; "ignore" leaves it out.
        calibrate: Whether to embed validation images too, which choose the threshold and the
            temperature.
        boxes: A box file; by default ``boxes.json``, ``.csv`` or ``.parquet`` of the data folder.
        slices: Columns of the manifest; "age" is split into bands.
        probe: Whether to fit linear probes to the training images.
        sensitivity: The sensitivity of a second operating point, besides Youden's; above 0, at
            most 1.
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
        """Read the result of :meth:`to_dict`; missing keys get their defaults."""
        boxes = Path(values["boxes"]) if values.get("boxes") else None
        slices = tuple(values.get("slices", SLICE_COLUMNS))
        return cls(**{**values, "boxes": boxes, "slices": slices})
