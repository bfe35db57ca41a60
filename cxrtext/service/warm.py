"""The first question, asked before anybody waits for its answer."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from cxrtext.index import Query
from cxrtext.index.means import mean_region

if TYPE_CHECKING:
    from cxrtext.service.loaded import Loaded

SENTENCE = "The lungs are clear."


def warm_up(service: "Loaded") -> None:
    """Embed and score an image and a sentence, and search: the first time takes the longest.

    Libraries are loaded by it, and memory is taken.
    """
    model = service.model
    side = model.spec.preprocessing.resize
    regions = service.embed_squares([np.zeros((1, side, side), dtype=np.uint8)])[0][None]
    texts = service.embed_sentences([SENTENCE])
    with torch.inference_mode():
        model.scores(regions, texts)
    if service.has_index:
        service.archive.search(Query(texts=texts), 1)
        service.archive.search(Query(image=mean_region(regions.float()).cpu()[0]), 1)
