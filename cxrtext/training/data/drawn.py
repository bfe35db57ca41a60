"""The batch that an objective is asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cxrtext.records import ImageRecord, Sentence

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Drawn:
    """The B images of a batch, and the S sentences drawn from their studies."""

    image_of: Tensor  # [S], the image of each sentence
    records: Sequence[ImageRecord]  # [B]
    sentences: Sequence[Sentence]  # [S]
    reports: Sequence[Sequence[str]]  # [B], all sentences of each image's study


Ask = Callable[[Drawn], dict[str, Any]]
"""Gives what an objective needs besides scores: tensors on the CPU, by name."""
