"""Between which scores the heatmap of a sentence shades, by what reference images reach."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cxrtext.pausing import Pausing
from cxrtext.service.cache import Remembered
from cxrtext.service.verify.reference import References, ReferenceScores

COLD, HOT = 75.0, 99.0
"""Percentiles of the reference images' best region: where color begins, and where it is full."""

LEAST_SPAN = 0.1
"""Between the two, at least, up to a score of 1: "The lungs are clear." has nearly the same best
region everywhere."""

SCORED_AT_ONCE, SENTENCES_AT_ONCE = 64, 16
"""Images, and sentences, at a time: memory is bounded, and so is the time between two pauses."""

REMEMBERED = 4096  # sentences

Scale = tuple[float, float]


class HeatScales:
    """Scales of sentences, remembered; threads may share one."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._made: tuple[ReferenceScores | None, Remembered[str, Scale]]
        self._made = None, Remembered(REMEMBERED)

    def pausing(self, sentences: Sequence[str], texts: Tensor) -> Pausing[list[Scale | None]]:
        """As :meth:`of`, with pauses."""
        found: list[Scale | None] = []
        for start in range(0, len(sentences), SENTENCES_AT_ONCE):
            part = slice(start, start + SENTENCES_AT_ONCE)
            found += self.of(sentences[part], texts[part])
            yield
        return found

    def of(self, sentences: Sequence[str], texts: Tensor) -> list[Scale | None]:
        """The scale of each of S sentences, embeddings [S, D]; None without reference images."""
        reference = self._references.now()
        if reference is None:
            return [None] * len(sentences)
        if self._made[0] is not reference:  # the archive that it is of has changed
            self._made = reference, Remembered(REMEMBERED)
        known = self._made[1]
        found = known.use(sentences)
        missing = {sentence: i for i, sentence in enumerate(sentences) if sentence not in found}
        if missing:
            peaks = _peaks(reference, texts[list(missing.values())].float().cpu())
            cold, hot = np.percentile(peaks, (COLD, HOT), axis=1).tolist()
            scales = [(c, min(max(h, c + LEAST_SPAN), 1.0)) for c, h in zip(cold, hot, strict=True)]
            made = dict(zip(missing, scales, strict=True))
            found |= made
            known.keep(made)
        return [found[sentence] for sentence in sentences]


@torch.inference_mode()
def _peaks(
    reference: ReferenceScores, texts: Tensor
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Best region scores of sentences [S, D] in every reference image, [S, n]."""
    kept = reference.reference
    parts = [
        reference.model.maps(kept.regions(start, start + SCORED_AT_ONCE), texts).amax(dim=-1)
        for start in range(0, len(kept), SCORED_AT_ONCE)
    ]
    return torch.cat(parts, dim=1).numpy()
