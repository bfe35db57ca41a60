"""What is familiar to a checkpoint that does not say so, from the data that it was trained on."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from cxrtext.errors import CheckpointError, DataError
from cxrtext.evaluation.data import manifest_of, sentences_beside
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.models import load_model
from cxrtext.models.familiar import (
    FAMILIAR,
    LOOK,
    MAX_IMAGES,
    Familiar,
    Rows,
    know_images,
    know_words,
    load_familiar,
    looks,
    save_familiar,
)
from cxrtext.models.reference import choose_reference
from cxrtext.models.regions import read_squares
from cxrtext.records import ImageRecord, Rejects, read_manifest


def keep_familiar(
    checkpoint: Path,
    data: Path,
    *,
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Path, Familiar]:
    """Describe a checkpoint's training and validation data, and keep that with it.

    Training does so by itself, and what it noted stays as it is; this is for checkpoints made
    before it did.  ``data`` is to be the folder that the model was trained on: of another one
    nothing can be said about what the model knows.

    Raises:
        DataError: There is no training or validation image that can be read.
        CheckpointError: The checkpoint is damaged.
    """
    model = load_model(checkpoint)
    known = None
    with suppress(CheckpointError):  # a damaged one is made anew
        known = load_familiar(checkpoint, model.fingerprint)
    if known is not None:
        return checkpoint / FAMILIAR, known
    familiar = familiar_of(
        data,
        model.spec.preprocessing,
        allow_outside=allow_outside,
        cache=cache,
        progress=progress,
    )
    return save_familiar(checkpoint, familiar, model.fingerprint), familiar


def familiar_of(
    data: Path,
    preprocessing: Preprocessing,
    *,
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Familiar:
    """What is familiar to a model that was trained on a data folder; see :func:`keep_familiar`."""
    manifest = manifest_of(data)
    records = read_manifest(manifest, allow_outside=allow_outside)
    splits = {name: _chosen([r for r in records if r.split == name]) for name in ("train", "val")}
    rejects = Rejects()
    reader = _Reader(preprocessing, cache, rejects, progress)
    reader.total = sum(map(len, splits.values()))
    rows = {name: reader.looks(some) for name, some in splits.items()}
    if not any(map(len, rows.values())):
        why = f": {rejects.rows[-1][1]}" if rejects.rows else "; name some in column 'split'"
        raise DataError(f"{manifest}: no image of split 'train' or 'val' can be read{why}")
    split_of = {record.study_id: record.split for record in records}
    said: dict[str, list[tuple[str, str]]] = {"train": [], "val": [], "test": []}
    for one in sentences_beside(manifest) or ():
        if one.study_id in split_of:
            said[split_of[one.study_id]].append((one.study_id, one.sentence))
    return Familiar(
        know_images(rows["train"], rows["val"]),
        know_words(said["train"] or said["val"], (sentence for _, sentence in said["val"])),
    )


def _chosen(records: Sequence[ImageRecord]) -> list[ImageRecord]:
    """Images to describe, one a patient first."""
    names, patients = [r.name for r in records], [r.patient_id for r in records]
    return [records[i] for i in choose_reference(names, patients, MAX_IMAGES)]


class _Reader:
    """Reads looks and counts images."""

    def __init__(
        self,
        preprocessing: Preprocessing,
        cache: DecodedCache | None,
        rejects: Rejects,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._preprocessing, self._cache = preprocessing, cache
        self._rejects, self._progress = rejects, progress
        self.done = self.total = 0

    def looks(self, records: Sequence[ImageRecord]) -> Rows:
        """Looks of images, those left out that cannot be read."""
        parts = []
        read = read_squares(self._preprocessing, [r.path for r in records], cache=self._cache)
        for record, square in zip(records, read, strict=True):
            if isinstance(square, str):
                self._rejects.add(record.name, square)
            else:
                parts.append(looks(square[None], self._preprocessing))
            self.done += 1
            if self._progress:
                self._progress(self.done, self.total)
        return np.concatenate(parts) if parts else np.empty((0, LOOK))
