"""A query for images, and its score."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.features.bounds import SLACK, Bounds
from cxrtext.index.features.language import Language
from cxrtext.index.features.scoring import packed_scores
from cxrtext.models import ImageTextModel

IMAGE_WEIGHT = 0.5

Upper = Callable[[Tensor, Tensor], Tensor]
"""Upper bounds of images [B] (or of sentences with them, [S, B]), from their sketches
[B, 2, m + 1, N] in float32 and their mean regions [B, D]; unused ones may be empty, but the means
must have B rows."""


@dataclass(frozen=True, slots=True)
class Query:
    """Images that fit sentences, do not fit others, and are similar to an image (ValueError).

    The score is the model's mean score over ``texts``, minus the highest score among ``without``;
    with ``image`` it is mixed with the cosine of the mean regions.
    """

    texts: Tensor | None = None  # [S, D], sentences that images should fit, or None
    without: Tensor | None = None  # [T, D], sentences that images should not fit, or None
    image: Tensor | None = None  # [D], mean region of a similar image, or None
    image_weight: float = IMAGE_WEIGHT  # of the similarity if there are texts, too; in [0, 1]

    def __post_init__(self) -> None:
        if self.texts is None and self.image is None:
            raise ValueError("a query needs texts or an image")
        if not 0 <= self.image_weight <= 1:
            raise ValueError(f"image_weight must be in [0, 1], got {self.image_weight}")

    def upper(self, model: ImageTextModel, basis: Tensor) -> Upper:
        """A function for upper bounds of the scores of images; ``basis`` [D, m] of the sketches."""
        aggregator, lam = model.spec.aggregator, model.spec.lam

        def bounds(texts: Tensor | None, sign: int) -> Upper | None:
            if texts is None:
                return None
            texts = texts.cpu().float()
            if aggregator == "global":
                return lambda _, means: texts @ means.T + sign * SLACK
            of = Bounds(texts, basis, aggregator, lam, upper=sign > 0)
            return lambda sketches, _: of(sketches)

        high, low = bounds(self.texts, 1), bounds(self.without, -1)
        return lambda sketches, means: self._mixed(
            None if high is None else high(sketches, means),
            None if low is None else low(sketches, means),
            means,
        )

    def exact(self, model: ImageTextModel, packed: NDArray[Any] | None, means: Tensor) -> Tensor:
        """Scores of images, [B]; with sentences, it needs rows of regions."""
        given = [part.cpu().float() for part in (self.texts, self.without) if part is not None]
        if not given or packed is None:
            return self._mixed(None, None, means)
        scores = packed_scores(model, packed, torch.cat(given))
        S = 0 if self.texts is None else len(self.texts)
        return self._mixed(
            scores[:S] if S else None, None if self.without is None else scores[S:], means
        )

    def near(self, language: Language, profiles: Tensor, means: Tensor | None) -> Tensor:
        """Approximate scores [B] of images with profiles [B, n]; with an image, it needs means."""

        def scores(texts: Tensor | None) -> Tensor | None:
            return None if texts is None else language.weights(texts) @ profiles.T

        means = profiles if means is None else means
        return self._mixed(scores(self.texts), scores(self.without), means)

    @property
    def is_one_product(self) -> bool:
        """Whether the approximate score is a single product with an image's profile."""
        return self.texts is not None and self.without is None and self.image is None

    @property
    def has_sentences(self) -> bool:
        """Whether regions are scored, not only mean regions."""
        return self.texts is not None or self.without is not None

    def _mixed(self, texts: Tensor | None, without: Tensor | None, means: Tensor) -> Tensor:
        """The score of images from scores with ``texts`` [S, B] and ``without`` [T, B]."""
        fit = torch.zeros(len(means)) if texts is None else texts.mean(dim=0)
        if without is not None:
            fit = fit - without.amax(dim=0)
        if self.image is None:
            return fit
        like = means @ F.normalize(self.image.cpu().float(), dim=-1)
        if texts is None:
            return fit + like
        return (1 - self.image_weight) * fit + self.image_weight * like
