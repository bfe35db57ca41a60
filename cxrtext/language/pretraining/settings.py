"""How large a network is trained, how long and how."""

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError, DataError

KIND = "masked-language-model"
"""What ``training.json`` of a model that was trained here says that the folder holds."""


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int  # transformer layers
    hidden: int  # width
    heads: int  # attention heads; the width is a multiple of them
    vocabulary_size: int  # most word pieces
    tokens: int  # tokens to train on in all, from which the epochs follow
    learning_rate: float  # at the peak


SHAPES = {
    "compact": Shape(3, 192, 3, vocabulary_size=4000, tokens=1_400_000, learning_rate=1e-3),
    "demo": Shape(2, 128, 2, vocabulary_size=1000, tokens=700_000, learning_rate=2e-3),
}
"""Named sizes: "compact" for real corpora, "demo" for the embedded data set."""

BATCH_TOKENS = 512
"""Default tokens in a batch: small networks gain more from many steps than from large batches."""

INITIAL_SCALE = 0.05
"""Standard deviation of new weights: BERT's 0.02 leaves narrow networks on a plateau for epochs."""

FINE_TUNING_TOKENS, FINE_TUNING_RATE, FINE_TUNING_BATCH_TOKENS = 2_000_000, 5e-5, 2048
"""Defaults for a given model: tokens in all, peak of the learning rate, tokens in a batch."""


@dataclass(frozen=True, slots=True)
class PretrainSettings:
    base: str | None  # fingerprint of the model to fine-tune, or None
    shape: Shape | None  # size of a new network, or None with ``base``
    # Passes through the sentences; None takes as many as the tokens wanted ask for.
    epochs: int | None
    learning_rate: float  # at the peak
    batch_tokens: int  # most tokens in a batch
    seed: int  # of everything random
    patience: int = 0  # epochs without a lower held-out loss after which training stops; 0 is off
    mask_share: float = 0.15  # share of the word pieces to mask
    warmup: float = 0.06  # share of the steps over which the learning rate rises
    weight_decay: float = 0.01  # on matrices

    @property
    def tokens(self) -> int:
        return FINE_TUNING_TOKENS if self.shape is None else self.shape.tokens


def choose_shape(size: str, **wanted: int | None) -> Shape:
    if size not in SHAPES:
        raise ConfigError(f"size '{size}' is not one of {', '.join(SHAPES)}")
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    shape = replace(SHAPES[size], **given)
    check_numbers(**asdict(shape))
    if shape.hidden % shape.heads:
        raise ConfigError(f"hidden {shape.hidden} is no multiple of heads {shape.heads}")
    if not 150 <= shape.vocabulary_size <= 200_000:
        raise ConfigError(
            f"vocabulary_size is {shape.vocabulary_size}; it must lie between 150 and 200000"
        )
    return shape


def choose_settings(
    shape: Shape,
    base: str | None,
    *,
    learning_rate: float | None,
    batch_tokens: int | None,
    **rest: Any,
) -> PretrainSettings:
    """Fill in the defaults of a new network, or with ``base``, a fingerprint, those of tuning."""
    rate, batch = shape.learning_rate, BATCH_TOKENS
    if base is not None:
        rate, batch = FINE_TUNING_RATE, FINE_TUNING_BATCH_TOKENS
    own = None if base is not None else shape
    return PretrainSettings(
        base, own, learning_rate=learning_rate or rate, batch_tokens=batch_tokens or batch, **rest
    )


def check_numbers(**numbers: float | None) -> None:
    """Raise a ConfigError for a number that is given and not above 0."""
    for name, value in numbers.items():
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"{name} is {value:g}; it must be above 0")


def check_output(out: Path) -> None:
    """Raise a DataError for a folder that holds something else than a model of this kind."""
    with suppress(OSError, UnicodeDecodeError):
        if f'"kind": "{KIND}"' in (out / "training.json").read_text(encoding="utf-8"):
            return
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise DataError(
            f"{out}: exists and is no language model that was trained here; name another folder"
        )
