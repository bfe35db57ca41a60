"""An open index: its catalogue, and its vectors at the time of opening."""

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from cxrtext.errors import CheckpointError, DataError
from cxrtext.index.store.catalogue import (
    Catalogue,
    catalogue_errors,
    empty_index,
    noted_checkpoint,
)
from cxrtext.index.store.snapshot import Snapshot, take_snapshot
from cxrtext.index.store.vectors import rows_of
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.regions import unpack


class Index:
    """An open index, which does not change; :meth:`renewed` shows what others have written since.

    Images deleted since are no longer found, though.
    """

    def __init__(
        self,
        folder: Path,
        model: ImageTextModel,
        catalogue: Catalogue,
        before: Snapshot | None = None,
    ) -> None:
        self.folder = folder
        self.model = model
        self.catalogue = catalogue
        # Read the version first: if the view is newer, it is just taken once more.
        self._version = catalogue.version()
        self.snapshot = take_snapshot(folder, catalogue, before)

    def close(self) -> None:
        self.catalogue.close()

    def renewed(self) -> Self | None:
        """The index as it is now, or itself if nothing changed; None if it has another model.

        Both share a catalogue, and closing either closes it.
        """
        own = self.model.fingerprint
        with catalogue_errors(self.catalogue.path):
            if self.catalogue.version() == self._version:
                return self
            if self.catalogue.meta()["model"] != own:
                return None
            fresh = type(self)(self.folder, self.model, self.catalogue, self.snapshot)
        return fresh if fresh.snapshot.meta["model"] == own else None

    def regions(self, number: int) -> Tensor:
        """Regions of the image with a number, [N, D] in float32 (DataError)."""
        snapshot = self.snapshot
        places = snapshot.places_of(np.array([number]))
        if not len(places):
            raise DataError(f"{self.folder}: has no image number {number}; search again")
        return unpack(rows_of(snapshot.arrays["regions"], places))[0]


def model_of(
    folder: Path, meta: dict[str, str], model: ImageTextModel | str | Path | None
) -> ImageTextModel:
    """The model that made an index: this one, this checkpoint's, or for None the one noted."""
    if "model" not in meta:
        raise empty_index(folder)
    if not isinstance(model, ImageTextModel):
        model = load_model(model or noted_checkpoint(folder, meta))
    check_model(folder, meta, model)
    return model


def check_model(folder: Path, meta: dict[str, Any], model: ImageTextModel) -> None:
    """Refuse a model that did not make the index (CheckpointError)."""
    preprocessing = model.spec.preprocessing
    given = {"resize": preprocessing.resize, "crop": preprocessing.crop}
    if meta["model"] == model.fingerprint:
        return
    noted = json.loads(meta["preprocessing"])
    other = "" if noted == given else f", which prepares images otherwise ({noted}, given {given})"
    raise CheckpointError(
        f"{folder}: made by another model ({meta['model'][:12]}…, given "
        f"{model.fingerprint[:12]}…){other}; give the model that made it, or make a new index"
    )
