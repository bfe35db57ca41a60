"""How large a network is trained, how long and how."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from cxrtext.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a network trained from nothing.

    Args:
        layers: Transformer layers.
        hidden: Width.
        heads: Attention heads; the width is a multiple of them.
        vocabulary_size: Most word pieces.
        tokens: Tokens to train on in all, from which the epochs follow.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary_size: int
    tokens: int


SHAPES = {
    "compact": Shape(layers=4, hidden=256, heads=4, vocabulary_size=4000, tokens=2_500_000),
    "demo": Shape(layers=2, hidden=128, heads=2, vocabulary_size=1000, tokens=1_000_000),
}
"""Named sizes: "compact" for real corpora, "demo" for the embedded data set."""

FINE_TUNING_TOKENS = 2_500_000
"""Tokens to fine-tune a given model on, three epochs at least."""

LEARNING_RATE, FINE_TUNING_RATE = 1e-3, 5e-5
"""Default peaks of the learning rate, from nothing and for a given model."""


@dataclass(frozen=True, slots=True)
class PretrainSettings:
    """Everything that the result depends on, beside the corpus.

    Args:
        base: Fingerprint of the model to fine-tune, or None.
        shape: Size of a new network, or None with ``base``.
        epochs: Passes through the sentences; None takes as many as the tokens wanted ask for.
        learning_rate: At the peak.
        batch_tokens: Most tokens in a batch.
        seed: Of everything random.
        mask_share: Share of the word pieces to guess.
        warmup: Share of the steps over which the learning rate rises.
        weight_decay: On matrices.
    """

    base: str | None
    shape: Shape | None
    epochs: int | None
    learning_rate: float
    batch_tokens: int
    seed: int
    mask_share: float = 0.15
    warmup: float = 0.06
    weight_decay: float = 0.01

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return asdict(self)

    @property
    def tokens(self) -> int:
        """Tokens to train on where no epochs are given."""
        return FINE_TUNING_TOKENS if self.shape is None else self.shape.tokens


def choose_shape(size: str, **given: int | None) -> Shape:
    """Return a named size with what the caller wants otherwise.

    Raises:
        ConfigError: The size has no such name, or a number does not fit.
    """
    if size not in SHAPES:
        raise ConfigError(f"size '{size}' is not one of {', '.join(SHAPES)}")
    shape = replace(SHAPES[size], **{k: v for k, v in given.items() if v is not None})
    for name, value in asdict(shape).items():
        check_positive(name, value)
    if shape.hidden % shape.heads:
        raise ConfigError(f"hidden {shape.hidden} is no multiple of heads {shape.heads}")
    if not 150 <= shape.vocabulary_size <= 200_000:
        raise ConfigError(
            f"vocabulary_size is {shape.vocabulary_size}; it must lie between 150 and 200000"
        )
    return shape


def check_positive(name: str, value: float | None) -> None:
    """Refuse a number that is not above 0.

    Raises:
        ConfigError: It is not.
    """
    if value is not None and not 0 < value < float("inf"):
        raise ConfigError(f"{name} is {value:g}; it must be above 0")
