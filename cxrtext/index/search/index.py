"""An open index: its catalogue, and a view of its vectors that follows what others write."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from cxrtext.errors import CheckpointError, DataError
from cxrtext.index.features.scoring import mean_region
from cxrtext.index.search.ranking import BOUND_BYTES
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
    """An open index.  What other processes add, replace or delete is seen by the next search.

    An index that is turned to another model meanwhile ('cxrtext index rebuild --model') is refused
    from then on, unless :attr:`outlives` it: then what was seen before the turn is gone on with.
    """

    outlives = False
    """Whether to answer by what was seen last once the index is another model's."""
    turned = False
    """Whether it is."""

    def __init__(self, folder: Path, model: ImageTextModel, catalogue: Catalogue) -> None:
        self.folder = folder
        self.model = model
        self.catalogue = catalogue
        self._lock = threading.Lock()
        # The version is asked for first: a view that is newer than it is taken once more, no worse.
        self._seen = catalogue.version(), take_snapshot(folder, catalogue)

    def close(self) -> None:
        self.catalogue.close()

    @property
    def snapshot(self) -> Snapshot:
        with catalogue_errors(self.catalogue.path), self._lock:
            version = self.catalogue.version()
            before, snapshot = self._seen
            if version != before:
                fresh = take_snapshot(self.folder, self.catalogue, snapshot)
                self.turned = fresh.meta["model"] != self.model.fingerprint
                if self.turned and not self.outlives:
                    raise CheckpointError(
                        f"{self.folder}: was rebuilt by another model meanwhile; open it again, "
                        "with that model"
                    )
                snapshot = snapshot if self.turned else fresh
                self._seen = version, snapshot
            return snapshot

    @contextmanager
    def same_model(self) -> Iterator[bool]:
        """One view of the catalogue, and whether its labels are this model's."""
        with self.catalogue.transaction():
            yield self.catalogue.meta().get("model") == self.model.fingerprint

    @property
    def seen(self) -> Snapshot:
        """The index as it was when it was last looked at; nothing is waited for."""
        return self._seen[1]

    def regions(self, number: int) -> Tensor:
        """Regions of the image of a number, [N, D] in float32 (DataError)."""
        snapshot = self.snapshot
        places = snapshot.places_of(np.array([number]))
        if not len(places):
            raise DataError(f"{self.folder}: holds no image of number {number}; search again")
        return unpack(rows_of(snapshot.arrays["regions"], places))[0]

    def is_unlike(self, regions: Tensor) -> bool:
        """Whether an image with regions [N, D] is less like any here than they are like each other.

        Such an image may be no chest radiograph; what a search by it finds says little.
        """
        snapshot = self.snapshot
        means = snapshot.arrays["means"]
        mean = mean_region(regions[None].float()).cpu()[0].numpy()
        best = -np.inf
        step = max(1, BOUND_BYTES // max(1, means[:1].nbytes))
        for start in range(0, len(means), step):  # where they lie in the file: no copy
            likeness = means[start : start + step] @ mean
            live = snapshot.numbers[start : start + step] >= 0
            best = max(best, float(likeness.max(initial=-np.inf, where=live)))
        return best < float(snapshot.meta.get("usual_likeness", -1.0)) and best > -np.inf


def model_of(
    folder: Path, meta: dict[str, str], model: ImageTextModel | str | Path | None
) -> ImageTextModel:
    """The model that made an index, from itself, its checkpoint, or for None the one noted."""
    if "model" not in meta:
        raise empty_index(folder)
    if not isinstance(model, ImageTextModel):
        model = load_model(model or noted_checkpoint(folder, meta))
    check_model(folder, meta, model)
    return model


def check_model(folder: Path, meta: dict[str, Any], model: ImageTextModel) -> None:
    """Refuse a model that did not make an index (CheckpointError, which names both)."""
    if meta.get("pool", "1") != "1":
        raise CheckpointError(
            f"{folder}: keeps regions pooled, which is no longer read; index anew into a new folder"
        )
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
