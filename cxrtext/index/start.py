"""Beginning an index: what it is made by, and what of."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from cxrtext.evaluation import Prompts
from cxrtext.evaluation.calibration import calibrations_of
from cxrtext.index.catalogue import Catalogue
from cxrtext.index.labels import labels_as_meta
from cxrtext.index.language import LANDMARKS, Language
from cxrtext.index.opening import check_model
from cxrtext.index.quantised import pooled
from cxrtext.index.typical import typical_sentences
from cxrtext.index.writer import set_meta
from cxrtext.models import ImageTextModel


def start_index(
    catalogue: Catalogue,
    model: ImageTextModel,
    checkpoint: Path,
    sentences: Sequence[Tensor],
    prompts: Mapping[str, Prompts],
    storage: str,
    pool: int = 1,
) -> None:
    """Note what a new index is made by and of; refuse another model for an old one.

    Args:
        catalogue: Open for writing.
        model: The model.
        checkpoint: Its folder.
        sentences: Vectors [D] of the archive's sentences, which the sketches are made for.
        prompts: Of the zero-shot labels that a new index keeps.
        storage: How a new index keeps regions.
        pool: Side of the block of regions that a new index keeps as one.

    Raises:
        CheckpointError: Another model made the index.
    """
    noted = catalogue.meta()
    if "model" in noted:
        check_model(catalogue.path.parent, noted, model)
        with catalogue.transaction(write=True) as database:
            set_meta(database, {"checkpoint": checkpoint.resolve()})
        return
    preprocessing = model.spec.preprocessing
    with torch.inference_mode():
        blank = torch.zeros(1, 1, preprocessing.crop, preprocessing.crop, device=model.device)
        N = pooled(model.embed_images(blank).flatten(1, 2), pool).shape[1]
    phrases = [p for e in prompts.values() for p in (*e.positive, *e.negative)]
    if len(sentences) < LANDMARKS:
        phrases += typical_sentences()
    told = model.embed_sentences(phrases).cpu()
    language = Language.of_sentences(torch.stack([*sentences, *told]))
    values = {
        "model": model.fingerprint,
        "checkpoint": checkpoint.resolve(),
        "preprocessing": json.dumps({"resize": preprocessing.resize, "crop": preprocessing.crop}),
        "regions": N,
        "dimension": model.spec.dimension,
        "storage": storage,
        "pool": pool,
        **language.as_meta(),
        **labels_as_meta(prompts, calibrations_of(model, prompts)),
        "generation": 1,
        **dict.fromkeys(
            ("places", "next_number", "sentence_places", "next_sentence", "deletions"), 0
        ),
    }
    with catalogue.transaction(write=True) as database:
        set_meta(database, values)
