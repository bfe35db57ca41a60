"""Objectives that compare a batch's sentences by the language model's states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.objectives.shared.objective import Contrast, Source

if TYPE_CHECKING:
    from torch import Tensor

    from cxrtext.models import ImageTextModel


class ComparingTexts(Contrast):
    """``known["similarity"]`` [S, B]: cosines of texts."""

    def prepare(self, source: Source) -> Ask:
        import torch

        distinct = list(dict.fromkeys(sentence.sentence for sentence in source.sentences))
        if len(distinct) < 2:
            raise DataError(
                f"{source.config.data.sentences}: all sentences are the same, so {self.name} "
                "cannot tell any apart; take another objective.name"
            )
        vectors = text_vectors(source.model, distinct, progress=source.progress)
        row_of = {text: row for row, text in enumerate(distinct)}

        def ask(drawn: Drawn) -> dict[str, Any]:
            rows = [row_of[sentence.sentence] for sentence in drawn.sentences]
            chosen = torch.from_numpy(vectors[rows]).float()
            images = len(drawn.records)
            return {"similarity": similarity_to_images(chosen, drawn.image_of, images)}

        return ask


def similarity_to_images(vectors: Tensor, image_of: Tensor, images: int) -> Tensor:
    """Similarity of each sentence to each image: to the image's most similar sentence.

    Unit vectors [S, d] of sentences of the images ``image_of`` [S] give cosines [S, B]; −1 for an
    image without a sentence.
    """
    cosines = vectors @ vectors.T
    lowest = cosines.new_full((len(vectors), images), -1.0)
    columns = image_of.expand(len(vectors), -1)
    return lowest.scatter_reduce(1, columns, cosines, "amax", include_self=True)


def text_vectors(
    model: ImageTextModel,
    sentences: Sequence[str],
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float16]:
    """Unit vectors of distinct sentences; their cosines measure similarity.

    They are mean-pooled last hidden states of the text encoder, minus their mean, normalized.
    BERT's states share one large direction: the cosine of any two sentences is high, often near 1,
    and differs between models.  Without the mean, cosines spread around 0, and a threshold means
    much the same for every model.

    The model must be untrained, so that its text encoder is still the language model's.  U
    sentences give [U, hidden size], in float16 to halve the memory.

    Source: Ethayarajh 2019 (How contextual are contextualized word representations?), section 4,
        for the shared direction; removing it is ours.
    """
    import torch
    import torch.nn.functional as F

    from cxrtext.models.text_encoder import mean_state

    encoder, training = model.text_encoder.trunk, model.training
    hidden = int(model.spec.text["hidden_size"])
    vectors = np.empty((len(sentences), hidden), dtype=np.float16)
    total, shift = torch.zeros(hidden, dtype=torch.float64), torch.zeros(hidden)
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    model.eval()
    with torch.no_grad():
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            tokens = model.tokenize([sentences[i] for i in rows])
            ids, mask = (tokens[n].to(model.device) for n in ("input_ids", "attention_mask"))
            states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            pooled = mean_state(states, mask).cpu()
            if start == 0:  # the shared direction would use up float16's digits
                shift = pooled.mean(dim=0)
            pooled -= shift
            total += pooled.double().sum(dim=0)
            vectors[rows] = pooled.half().numpy()
            if progress:
                progress(min(start + batch, len(order)), len(order))
    model.train(training)
    mean = (total / max(1, len(sentences))).float()
    for start in range(0, len(vectors), 4096):  # in place: the table may have gigabytes
        part = torch.from_numpy(vectors[start : start + 4096]).float()
        vectors[start : start + 4096] = F.normalize(part - mean, dim=1).half().numpy()
    return vectors
