"""What a run leaves beside its models for their answers to be measured by."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cxrtext.images import Preprocessing
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.familiar import (
    FAMILIAR,
    LOOK,
    MAX_IMAGES,
    Familiar,
    Rows,
    know_images,
    know_words,
    looks,
    save_familiar,
)
from cxrtext.models.reference import (
    REFERENCE,
    Reference,
    choose_reference,
    embed_reference,
    save_reference,
)
from cxrtext.training.loader import Examples

LOOKED_AT_ONCE = 64


def keep_references(out: Path, train: Examples, validation: Examples, device: str) -> None:
    """Put what answers are measured by into checkpoints that are without.

    That is what is familiar to the model, by training and validation images and sentences, and
    reference images, of the validation split if it has any.
    """
    folders = [f for f in (out / name for name in ("checkpoint", "checkpoint-best")) if f.is_dir()]
    models = {folder: load_model(folder, device) for folder in folders if _wants(folder)}
    _keep_familiar(
        {f: m for f, m in models.items() if not (f / FAMILIAR).is_file()}, train, validation
    )
    records = validation.records
    if not records:
        return
    chosen = choose_reference(
        [record.name for record in records], [record.patient_id for record in records]
    )
    made: dict[str, Reference] = {}
    for folder, model in models.items():
        if (folder / REFERENCE).is_file():
            continue
        if model.fingerprint not in made:
            squares = (validation.pixels[validation.rows[place]][None] for place in chosen)
            made = {model.fingerprint: embed_reference(model, squares)}
        save_reference(folder, made[model.fingerprint], model.fingerprint)


def _wants(folder: Path) -> bool:
    return not all((folder / name).is_file() for name in (REFERENCE, FAMILIAR))


def _keep_familiar(
    models: Mapping[Path, ImageTextModel], train: Examples, validation: Examples
) -> None:
    """Keep what was trained on with models of one run, which all look at the same pixels."""
    familiar: Familiar | None = None
    for folder, model in models.items():
        if familiar is None:
            preprocessing = model.spec.preprocessing
            familiar = Familiar(
                know_images(_looks(train, preprocessing), _looks(validation, preprocessing)),
                know_words(
                    ((train.texts[i].study_id, train.texts[i].sentence) for i in _said(train)),
                    (validation.texts[i].sentence for i in _said(validation)),
                ),
            )
        save_familiar(folder, familiar, model.fingerprint)


def _said(examples: Examples) -> list[int]:
    """The sentences of some examples, each once."""
    return sorted({int(i) for own in examples.sentences for i in own})


def _looks(examples: Examples, preprocessing: Preprocessing) -> Rows:
    """Looks of at most :data:`MAX_IMAGES` examples."""
    names = [record.name for record in examples.records]
    patients = [record.patient_id for record in examples.records]
    chosen = choose_reference(names, patients, MAX_IMAGES)
    parts = [
        looks(
            np.stack([examples.pixels[examples.rows[i]] for i in chosen[at : at + LOOKED_AT_ONCE]])[
                :, None
            ],
            preprocessing,
        )
        for at in range(0, len(chosen), LOOKED_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty((0, LOOK))
