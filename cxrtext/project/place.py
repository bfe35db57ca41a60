"""Where a model, its index and its data lie: in a project, or the one folder that is named."""

from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.index.store.catalogue import check_index_folder
from cxrtext.models.folders import CONFIG, WEIGHTS, read_checkpoint_config

RECIPE = "recipe.yaml"
"""What makes a folder a project."""
DATA, DECODED, RUN, INDEX, EVALUATION = "data", "decoded", "run", "index", "evaluation"
CHECKPOINT = f"{RUN}/checkpoint-best"
"""What validation images chose; the last step's model may be past its best."""


@dataclass(frozen=True, slots=True)
class Place:
    """What was found in a folder; None and () where it has no such part."""

    folder: Path
    checkpoint: Path | None = None
    indexes: tuple[Path, ...] = ()
    data: Path | None = None
    decoded: Path | None = None  # the cache of decoded images


def find_place(folder: Path) -> Place:
    """What a project, a checkpoint or an index holds (DataError, CheckpointError)."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {what}; give a project, a checkpoint or an index")
    if (folder / RECIPE).is_file():
        return _project(folder)
    if (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file():
        read_checkpoint_config(folder)
        return Place(folder, checkpoint=folder)
    check_index_folder(folder)
    return Place(folder, indexes=(folder,))


def _project(folder: Path) -> Place:
    checkpoint = folder / CHECKPOINT
    if not (checkpoint / CONFIG).is_file():
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
