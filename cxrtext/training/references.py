"""What a run leaves beside its models for their answers to be measured by."""

from collections.abc import Iterator
from pathlib import Path

from cxrtext.images import Preprocessing
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.familiar import FAMILIAR, Familiar, save_familiar
from cxrtext.models.familiar_data import Split, choose_images, describe_data, looks_of
from cxrtext.models.reference import (
    REFERENCE,
    Reference,
    choose_reference,
    embed_reference,
    reference_of,
    save_reference,
)
from cxrtext.models.regions import Square, embed_features
from cxrtext.training.data.loader import Examples
from cxrtext.training.data.locked_features import StoredFeatures


def keep_references(out: Path, train: Examples, validation: Examples, device: str) -> None:
    """Put what answers are measured by into checkpoints that are without.

    That is what is familiar to the model, by training and validation images and sentences, and
    reference images, of the validation split if it has any.
    """
    familiar: Familiar | None = None  # of all: the models of one run look at the same pixels
    references: dict[str, Reference] = {}  # the best model may be the last one
    for folder in (out / "checkpoint", out / "checkpoint-best"):
        lacking = [name for name in (FAMILIAR, REFERENCE) if not (folder / name).is_file()]
        if not lacking or not folder.is_dir():
            continue
        model = load_model(folder, device)
        if FAMILIAR in lacking:
            familiar = familiar or _familiar(train, validation, model.spec.preprocessing)
            save_familiar(folder, familiar, model.fingerprint)
        if REFERENCE in lacking and validation.records:
            if model.fingerprint not in references:
                references[model.fingerprint] = _reference(model, validation)
            save_reference(folder, references[model.fingerprint], model.fingerprint)


def _familiar(train: Examples, validation: Examples, preprocessing: Preprocessing) -> Familiar:
    return describe_data(*(_split(examples, preprocessing) for examples in (train, validation)))


def _split(examples: Examples, preprocessing: Preprocessing) -> Split:
    chosen = choose_images(examples.records)
    if isinstance(examples.features, StoredFeatures):
        found = examples.features.folder.looks(examples.features.places[chosen])
    else:
        found = looks_of(_squares(examples, chosen), preprocessing)
    said = sorted({int(i) for own in examples.sentences for i in own})
    return Split(found, [(examples.texts[i].study_id, examples.texts[i].sentence) for i in said])


def _reference(model: ImageTextModel, validation: Examples) -> Reference:
    records = validation.records
    chosen = choose_reference([r.name for r in records], [r.patient_id for r in records])
    if isinstance(validation.features, StoredFeatures):
        names = [records[place].name for place in chosen]
        embedded = embed_features(model, validation.features.folder, names)
        return reference_of(part.regions for part in embedded)
    return embed_reference(model, _squares(validation, chosen))


def _squares(examples: Examples, chosen: list[int]) -> Iterator[Square]:
    return (examples.pixels[examples.rows[place]][None] for place in chosen)
