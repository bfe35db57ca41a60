"""Where a model, its index and its data are: in a project, or in the folder that is named."""

from dataclasses import dataclass, replace
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.index.store.catalogue import CATALOGUE, checkpoint_of
from cxrtext.models.folders import check_checkpoint, checkpoints_in, has_model
from cxrtext.project.layout import CHECKPOINT, DATA, DECODED, INDEX, RECIPE


@dataclass(frozen=True, slots=True)
class Place:
    """What was found in a folder; None for missing parts."""

    folder: Path
    checkpoint: Path | None = None
    index: Path | None = None
    data: Path | None = None
    decoded: Path | None = None  # the cache of decoded images

    @property
    def model(self) -> Path:
        """The checkpoint; for an index, the one it notes (CheckpointError)."""
        return self.checkpoint or checkpoint_of(self.require_index())

    def require_index(self) -> Path:
        """The index (DataError)."""
        if self.index is None:
            raise DataError(f"{self.folder}: has no index; make one with 'cxrtext index build'")
        return self.index

    def require_data(self, given: Path | None) -> Path:
        """The given data folder, or else the project's own (DataError)."""
        data = given or self.data
        if data is None:
            raise DataError(f"{self.folder}: has no data of its own; give a folder with --data")
        return data


def find_place(folder: Path, *others: Path) -> Place:
    """What a project, a checkpoint or an index holds; its model exists (errors as below).

    ``others`` add what it does not have: the index of a checkpoint, or the checkpoint of an index.
    """
    place = find_part(folder)
    for other in map(find_part, others):
        if place.index and other.index:
            raise DataError(f"{other.folder}: a second index; one is searched at a time")
        model, index = place.checkpoint or other.checkpoint, place.index or other.index
        place = replace(place, checkpoint=model, index=index)
    _ = place.model
    return place


def find_part(folder: Path) -> Place:
    """What one folder holds (DataError, CheckpointError); an index's checkpoint may be missing."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {what}; give a project, a checkpoint or an index first")
    if (folder / RECIPE).is_file():
        return _project(folder)
    if has_model(folder):
        check_checkpoint(folder)
        return Place(folder, checkpoint=folder)
    if (folder / CATALOGUE).is_file():
        return Place(folder, index=folder)
    raise DataError(
        f"{folder}: neither a project nor a checkpoint nor an index{checkpoints_in(folder)}"
    )


def _project(folder: Path) -> Place:
    checkpoint = folder / CHECKPOINT
    if not has_model(checkpoint):
        raise DataError(
            f"{folder}: the project has no model yet; 'cxrtext fit' of its archive goes on with it"
        )
    index = folder / INDEX
    return Place(
        folder,
        checkpoint,
        index if index.is_dir() else None,
        folder / DATA,
        folder / DECODED,
    )
