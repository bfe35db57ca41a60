"""Reference images for the checkpoints of a finished run, from its validation split."""

from pathlib import Path

from cxrtext.models import load_model
from cxrtext.models.reference import (
    REFERENCE,
    Reference,
    choose_reference,
    embed_reference,
    save_reference,
)
from cxrtext.training.data import Examples

CHECKPOINTS = ("checkpoint", "checkpoint-best")


def keep_references(out: Path, validation: Examples, device: str) -> None:
    """Put reference images into the checkpoints of a run that lack them.

    Args:
        out: The run's folder.
        validation: The validation split; where it is empty, nothing is kept.
        device: Where to compute.
    """
    folders = [out / name for name in CHECKPOINTS]
    wanting = [f for f in folders if f.is_dir() and not (f / REFERENCE).is_file()]
    records = validation.records
    if not records or not wanting:
        return
    chosen = choose_reference(
        [record.name for record in records], [record.patient_id for record in records]
    )
    made: dict[str, Reference] = {}
    for folder in wanting:
        model = load_model(folder, device)
        if model.fingerprint not in made:
            squares = (validation.pixels[validation.rows[place]][None] for place in chosen)
            made = {model.fingerprint: embed_reference(model, squares)}
        save_reference(folder, made[model.fingerprint], model.fingerprint)
