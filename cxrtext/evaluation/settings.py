"""How an evaluation is done, apart from what it is done on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from cxrtext.errors import ConfigError
from cxrtext.evaluation.comparison import PRIMARY
from cxrtext.metrics.ranking import Uncertain

Average = Literal["embeddings", "scores"]
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


ONCE = ("prevalence", "sigma")
"""Settings of earlier predictions that are no longer read."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How an evaluation is done.

    Args:
        average: What is averaged where a class has several prompts: their embeddings, or the
            scores that each of them gives.
        uncertain: What the label −1 counts as; "ignore" leaves it out.
        calibrate: Whether validation images are embedded too, which choose the threshold and the
            temperature.
        boxes: A box file; by default ``boxes.json``, ``.csv`` or ``.parquet`` of the data folder.
        exclude_same_patient: Whether in retrieval other candidates of the query's own patient are
            left out.
        slices: Columns of the manifest; "age" is taken in bands.
        probe: Whether linear probes are fitted to the training images.
        sensitivity: That of a second operating point, beside Youden's; above 0, at most 1.
        primary: The one measure that decides, declared before the figures are seen; named as in
            a comparison.
    """

    average: Average = "embeddings"
    uncertain: Uncertain = "ignore"
    calibrate: bool = True
    boxes: Path | None = None
    exclude_same_patient: bool = False
    slices: tuple[str, ...] = SLICE_COLUMNS
    probe: bool = False
    sensitivity: float = 0.95
    primary: str = PRIMARY

    def __post_init__(self) -> None:
        for name, value, known in (
            ("average", self.average, get_args(Average)),
            ("uncertain", self.uncertain, get_args(Uncertain)),
        ):
            if value not in known:
                raise ConfigError(f"--{name}: '{value}' is not one of {', '.join(known)}")
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
        known = {name: one for name, one in values.items() if name not in ONCE}
        return cls(**{**known, "boxes": boxes, "slices": slices})
