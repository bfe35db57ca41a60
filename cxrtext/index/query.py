"""What is looked for among images, and its score."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.language import Language
from cxrtext.index.scoring import packed_scores
from cxrtext.index.sketch import SLACK, lower_bounds, upper_bounds
from cxrtext.models import ImageTextModel

IMAGE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Query:
    """Images that fit sentences, do not fit others, and are like an image.

    The score is the mean over ``texts`` of the model's score, less the highest score of one of
    ``without``; with ``image`` it is mixed with the cosine of the mean regions.

    Args:
        texts: [S, D], sentences that an image is to fit; None for none.
        without: [T, D], sentences that it is not to fit; None for none.
        image: [D], mean region of an image that it is to be like; None for none.
        image_weight: Weight of the likeness, where there are texts, too; in [0, 1].

    Raises:
        ValueError: There is neither a text nor an image, or the weight is out of range.
    """

    texts: Tensor | None = None
    without: Tensor | None = None
    image: Tensor | None = None
    image_weight: float = IMAGE_WEIGHT

    def __post_init__(self) -> None:
        if self.texts is None and self.image is None:
            raise ValueError("a query wants texts or an image")
        if not 0 <= self.image_weight <= 1:
            raise ValueError(f"image_weight must be in [0, 1], got {self.image_weight}")

    def upper(
        self, model: ImageTextModel, sketches: Tensor, means: Tensor, basis: Tensor
    ) -> Tensor:
        """Upper bounds of the scores of images, [B].

        Args:
            model: The model.
            sketches: [B, 2, m + 1, N]; see :func:`cxrtext.index.sketch.upper_bounds`.
            means: [B, D], mean regions.
            basis: [D, m].
        """
        aggregator, lam = model.spec.aggregator, model.spec.lam

        def bound(texts: Tensor, sign: int) -> Tensor:
            if aggregator == "global":
                return texts @ means.T + sign * SLACK
            bounds = upper_bounds if sign > 0 else lower_bounds
            return bounds(sketches, texts, basis, aggregator, lam)

        return self._mixed(
            None if self.texts is None else bound(self.texts.cpu().float(), 1),
            None if self.without is None else bound(self.without.cpu().float(), -1),
            means,
        )

    def exact(self, model: ImageTextModel, packed: NDArray[Any] | None, means: Tensor) -> Tensor:
        """Scores of images, [B].

        Args:
            model: The model.
            packed: Rows of regions as they are kept; needed where there are sentences.
            means: [B, D], mean regions.
        """
        given = [part.cpu().float() for part in (self.texts, self.without) if part is not None]
        if not given or packed is None:
            return self._mixed(None, None, means)
        scores = packed_scores(model, packed, torch.cat(given))
        S = 0 if self.texts is None else len(self.texts)
        return self._mixed(
            scores[:S] if S else None, None if self.without is None else scores[S:], means
        )

    def near(self, language: Language, profiles: Tensor, means: Tensor | None) -> Tensor:
        """What images nearly score, [B]; the order of images is that of :meth:`exact`, nearly.

        Args:
            language: Of the index.
            profiles: [B, n], scores at the landmarks.
            means: [B, D], mean regions; needed where the query has an image.
        """

        def scores(texts: Tensor | None) -> Tensor | None:
            return None if texts is None else language.weights(texts) @ profiles.T

        means = profiles if means is None else means
        return self._mixed(scores(self.texts), scores(self.without), means)

    @property
    def is_one_product(self) -> bool:
        """Whether what an image nearly scores is one product with its profile."""
        return self.texts is not None and self.without is None and self.image is None

    @property
    def has_sentences(self) -> bool:
        """Whether regions are scored, not mean regions alone."""
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
