"""Opening an index with the model that made it."""

import json
from pathlib import Path

from cxrtext.errors import CheckpointError
from cxrtext.index.catalogue import CATALOGUE, WAIT_S, Catalogue, noted_checkpoint
from cxrtext.index.check import EMPTY, check_index
from cxrtext.index.search import Index
from cxrtext.models import ImageTextModel, load_model

CHECKED = 512 * 2**20
"""Bytes of vectors that are compared with their checksums when an index is opened; a larger index
is checked by 'cxrtext check-files'."""

CHECKED_CATALOGUE = 256 * 2**20
"""Bytes of a catalogue whose rows are compared with their sums when it is opened."""


def open_index(
    folder: str | Path,
    model: ImageTextModel | str | Path | None = None,
    *,
    wait_s: float = WAIT_S,
) -> Index:
    """Open an index for searching; the folder need not be writable.

    Args:
        folder: A folder that 'cxrtext index' wrote.
        model: The model that made it, or its checkpoint; by default the checkpoint that is noted
            in the index.
        wait_s: How long to wait where another process commits a change.

    Returns:
        The open index.

    Raises:
        CheckpointError: It is no index, is damaged, or another model made it.
    """
    folder = Path(folder)
    catalogue = Catalogue(folder / CATALOGUE, wait_s=wait_s)
    try:
        wrong = check_index(
            folder,
            catalogue,
            most=CHECKED,
            cells=catalogue.path.stat().st_size <= CHECKED_CATALOGUE,
        )
        if wrong and wrong != [EMPTY]:
            raise CheckpointError(
                f"{folder}: {wrong[0]}; run 'cxrtext index {folder} --check' for all that is "
                "wrong, and --rebuild, which derives anew what can be derived"
            )
        model = model_of(folder, catalogue.meta(), model)
        return Index(folder, model, catalogue)
    except BaseException:
        catalogue.close()
        raise


def model_of(
    folder: Path, meta: dict[str, str], model: ImageTextModel | str | Path | None
) -> ImageTextModel:
    """The model that made an index.

    Args:
        folder: The index's folder.
        meta: What its catalogue notes.
        model: The model or its checkpoint; None for the noted one.

    Raises:
        CheckpointError: It is another one, or cannot be loaded.
    """
    if "model" not in meta:
        raise CheckpointError(
            f"{folder}: the index is empty; run 'cxrtext index MANIFEST' to fill it"
        )
    if not isinstance(model, ImageTextModel):
        model = load_model(model or noted_checkpoint(folder, meta))
    check_model(folder, meta, model)
    return model


def check_model(folder: Path, meta: dict[str, str], model: ImageTextModel) -> None:
    """Refuse a model that did not make an index.

    Raises:
        CheckpointError: Naming both.
    """
    preprocessing = model.spec.preprocessing
    given = {"resize": preprocessing.resize, "crop": preprocessing.crop}
    if meta["model"] == model.fingerprint:
        return
    noted = json.loads(meta["preprocessing"])
    other = "" if noted == given else f", which prepares images otherwise ({noted}, given {given})"
    raise CheckpointError(
        f"{folder}: made by another model ({meta['model'][:12]}…, given "
        f"{model.fingerprint[:12]}…){other}; give the model that made it, or index anew"
    )
