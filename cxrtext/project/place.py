"""Where a model, its index and its data lie: in a project, or the one folder that is named."""

from dataclasses import dataclass, replace
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.index.store.catalogue import CATALOGUE, checkpoint_of
from cxrtext.models.folders import check_checkpoint, checkpoints_in, has_model
from cxrtext.project.layout import CHECKPOINT, DATA, DECODED, INDEX, RECIPE


@dataclass(frozen=True, slots=True)
class Place:
    """What was found in a folder; None and () where it has no such part."""

    folder: Path
    checkpoint: Path | None = None
    indexes: tuple[Path, ...] = ()
    data: Path | None = None
    decoded: Path | None = None  # the cache of decoded images

    @property
    def model(self) -> Path:
        """The checkpoint, of an index the one that it notes (CheckpointError)."""
        return self.checkpoint or checkpoint_of(self.indexes[0])

    def require_indexes(self) -> tuple[Path, ...]:
        """The indexes, one at least (DataError)."""
        if not self.indexes:
            raise DataError(f"{self.folder}: has no index; make one with 'cxrtext index build'")
        return self.indexes

    def require_data(self, given: Path | None) -> Path:
        """The data folder that was given, or else the project's own (DataError)."""
        data = given or self.data
        if data is None:
            raise DataError(f"{self.folder}: has no data of its own; give a folder with --data")
        return data


def find_place(folder: Path, *others: Path) -> Place:
    """What a project, a checkpoint or an index holds; its model is there (errors as below).

    The indexes of several are searched as one, by the first model among them.
    """
    place = find_part(folder)
    for other in map(find_part, others):
        model, indexes = place.checkpoint or other.checkpoint, place.indexes + other.indexes
        place = replace(place, checkpoint=model, indexes=indexes)
    if place.checkpoint is None:
        checkpoint_of(place.indexes[0])
    return place


def find_part(folder: Path) -> Place:
    """One of them, whose index may note a checkpoint that is gone (DataError, CheckpointError)."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {what}; give a project, a checkpoint or an index first")
    if (folder / RECIPE).is_file():
        return _project(folder)
    if has_model(folder):
        check_checkpoint(folder)
        return Place(folder, checkpoint=folder)
    if (folder / CATALOGUE).is_file():
        return Place(folder, indexes=(folder,))
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
        (index,) if index.is_dir() else (),
        folder / DATA,
        folder / DECODED,
    )
