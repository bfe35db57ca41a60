"""What an objective is asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cxrtext.records import ImageRecord, Sentence

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Drawn:
    """The images of a batch, B, and the sentences that were drawn of their studies, S."""

    image_of: Tensor  # [S], the image of each sentence
    records: Sequence[ImageRecord]  # [B]
    sentences: Sequence[Sentence]  # [S]
    reports: Sequence[Sequence[str]]  # [B], all sentences of each image's study


Ask = Callable[[Drawn], dict[str, Any]]
"""What an objective needs of a batch beside its scores: tensors on the CPU, by name."""
