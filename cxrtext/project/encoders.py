"""Image encoders from elsewhere: the list of known ones, the chosen one, the project's copy."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.errors import CheckpointError, HubError
from cxrtext.files import copy_files, replacing_folder, write_json
from cxrtext.files.yaml_text import read_own
from cxrtext.models.folders import (
    BACKBONE_FOLDER,
    BACKBONES_VARIABLE,
    PICKLED_WEIGHTS,
    SAFE_WEIGHTS,
    VISION_FILES,
    commit_of,
    find_vision_folder,
    is_hub_name,
    layout_of,
    read_json,
)
from cxrtext.project.layout import ENCODER

if TYPE_CHECKING:
    from cxrtext.models.foreign import Backbone


@dataclass(frozen=True, slots=True)
class ListedEncoder:
    """An entry of ``encoders.yaml``, and where it is on this machine."""

    name: str
    what: str
    trained_on: str
    licence: str
    megabytes: int | None = None
    offline: str = "a copy of its folder"
    use: str = "--encoder"
    tried: bool = False
    here: str | None = None


def listed_encoders() -> list[ListedEncoder]:
    """The image encoders known by name; the hub is not asked."""
    entries = read_own(Path(__file__).with_name("encoders.yaml"))
    return [ListedEncoder(**entry, here=_here(entry["name"])) for entry in entries]


def _here(name: str) -> str | None:
    listed = filter(None, os.environ.get(BACKBONES_VARIABLE, "").split(os.pathsep))
    last = name.rpartition("/")[2]
    for place in map(Path, listed):
        for folder in (place, place / last):
            if folder.name == last and folder.is_dir():
                return str(folder)
    with suppress(CheckpointError, HubError):
        return str(find_vision_folder(name, offline=True))
    return None


@dataclass(frozen=True, slots=True)
class GivenEncoder:
    name: str  # the whole path of its folder, or owner/model@commit
    backbone: "Backbone"

    @property
    def image(self) -> str:
        """Which ResNet of ``pretrain-image`` it is; "backbone" for another network."""
        from cxrtext.models.image_encoder import architecture_of

        is_resnet = self.backbone.model_type == "resnet"
        return (is_resnet and architecture_of(self.backbone.model.config)) or "backbone"

    def at(self, size: int) -> "Backbone":
        """The network for inputs of ``size`` pixels a side."""
        is_own = self.backbone.preprocessing.crop == size
        return self.backbone if is_own else find_encoder(self.name, size).backbone


def find_encoder(given: str, size: int | None = None) -> GivenEncoder:
    """Load an image encoder from a folder, or by its name on the hub, fetching it if needed.

    Args:
        size: Side of its input in pixels; None for its own.

    Raises:
        CheckpointError: It is not a known vision model, or it is damaged.
        HubError: It is not on this machine, and the hub did not give it.
    """
    pairs = [encoder.name for encoder in listed_encoders() if encoder.use != "--encoder"]
    _refuse_pair(given, given in pairs)
    folder = find_vision_folder(given)
    _refuse_pair(given, layout_of(folder) not in (None, "clip", "siglip"))
    list(_files(folder))  # refuses a link out of it before films are imported
    from cxrtext.models.foreign import load_backbone

    commit = commit_of(folder) if is_hub_name(given) and not Path(given).is_dir() else None
    name = f"{given.partition('@')[0]}@{commit}" if commit else str(folder.resolve())
    return GivenEncoder(name, load_backbone(folder, size=size))


def _refuse_pair(given: str, is_pair: bool) -> None:
    if is_pair:
        raise CheckpointError(
            f"{given}: is a finished pair, and its image side cannot be used alone; give its "
            "folder with --model"
        )


def copy_of(project: Path, name: str) -> Path:
    """Where a project keeps its copy of an encoder."""
    last = name.partition("@")[0] if is_hub_name(name) else os.path.normpath(name)
    return project / ENCODER / last.rpartition("/")[2]


def keep_copy(project: Path, name: str) -> None:
    """Copy an encoder into a project without it, so that the project can be moved and served.

    Processes started afterwards find it there.
    """
    target, note = copy_of(project, name), project / ENCODER / "encoder.json"
    if not (target.is_dir() and note.is_file() and read_json(note) == name):
        source = find_vision_folder(name)
        with replacing_folder(target) as made:
            for path in _files(source):
                shutil.copyfile(path, made / path.name)
        write_json(note, name)
    home, listed = str(note.parent.absolute()), os.environ.get(BACKBONES_VARIABLE, "")
    os.environ[BACKBONES_VARIABLE] = os.pathsep.join(filter(None, [home, listed]))


def keep_backbone(checkpoint: Path, copy: Path) -> None:
    """Copy a project's encoder into its checkpoint, which can then be moved and served alone."""
    target = checkpoint / BACKBONE_FOLDER
    if not target.is_dir():
        with replacing_folder(target, sums=False) as made:
            copy_files(copy, [path.name for path in copy.iterdir()], made)


def _files(folder: Path) -> Iterator[Path]:
    """The files of a vision model that loading reads."""
    for pattern in (*VISION_FILES, SAFE_WEIGHTS, PICKLED_WEIGHTS):
        is_second = pattern == PICKLED_WEIGHTS and (folder / SAFE_WEIGHTS).is_file()
        for path in sorted(folder.glob(pattern)) if not is_second else ():
            # The hub's cache consists of links into its own repository.
            home = folder.parents[1] if commit_of(folder) else folder
            if not path.resolve().is_relative_to(home.resolve()):
                raise CheckpointError(
                    f"{path}: is a link out of its folder; copy the folder with its files (cp -rL)"
                )
            if path.is_file():
                yield path
