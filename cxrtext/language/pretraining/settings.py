"""The settings of pre-training: the size of the network, and how long and how it is trained."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import ConfigError, DataError

KIND = "masked-language-model"
"""The kind of folder that ``training.json`` names for a model trained here."""


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int  # transformer layers
    hidden: int  # width
    heads: int  # attention heads; the width is a multiple of them
    vocabulary_size: int  # most word pieces
    tokens: int  # total tokens to train on, which give the number of epochs
    learning_rate: float  # at the peak
    batch_tokens: int = 512  # most tokens in a batch: small networks gain more from many steps


SHAPES = {
    "compact": Shape(3, 192, 3, vocabulary_size=4000, tokens=1_400_000, learning_rate=1e-3),
    "demo": Shape(2, 128, 2, vocabulary_size=1000, tokens=700_000, learning_rate=2e-3),
}
"""Named sizes: "compact" for real corpora, "demo" for the embedded data set."""

INITIAL_SCALE = 0.05
"""Standard deviation of new weights: BERT's 0.02 keeps narrow networks on a plateau for epochs."""

FINE_TUNING_TOKENS, FINE_TUNING_RATE, FINE_TUNING_BATCH_TOKENS = 2_000_000, 5e-5, 2048
"""Defaults for fine-tuning: total tokens, peak learning rate, tokens in a batch."""


@dataclass(frozen=True, slots=True)
class PretrainSettings:
    base: str | None  # fingerprint of the model to fine-tune, or None
    shape: Shape | None  # of a new network, or None with ``base``
    # Passes through the sentences; None takes as many as ``tokens`` gives.
    epochs: int | None
    seed: int  # for everything random
    mask_share: float = 0.15  # share of the word pieces to mask
    warmup: float = 0.06  # share of the steps over which the learning rate rises
    weight_decay: float = 0.01  # on matrices

    @property
    def tokens(self) -> int:
        return FINE_TUNING_TOKENS if self.shape is None else self.shape.tokens

    @property
    def learning_rate(self) -> float:
        return FINE_TUNING_RATE if self.shape is None else self.shape.learning_rate

    @property
    def batch_tokens(self) -> int:
        return FINE_TUNING_BATCH_TOKENS if self.shape is None else self.shape.batch_tokens


def shape_of(size: str | Shape) -> Shape:
    """The shape of a named size; a shape is returned as it is."""
    if isinstance(size, Shape):
        return size
    if size not in SHAPES:
        raise ConfigError(f"size '{size}' is not one of {', '.join(SHAPES)}")
    return SHAPES[size]


def check_output(out: Path) -> None:
    """Raise a DataError for a folder that is not empty and not a model of this kind."""
    with suppress(OSError, UnicodeDecodeError):
        if f'"kind": "{KIND}"' in (out / "training.json").read_text(encoding="utf-8"):
            return
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise DataError(
            f"{out}: exists and is not a language model that was trained here; name another folder"
        )
