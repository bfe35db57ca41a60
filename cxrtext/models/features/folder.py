"""Reads a folder of features made by ``cxrtext encode``.

``features.json`` is written last and names every other file with its digest.  A bounded number of
shards is mapped into memory at a time; each is compared with its digest when it is first used.
"""

import csv
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.errors import CheckpointError, NotFoundError
from cxrtext.files import file_in, read_sealed, sha256, write_sealed
from cxrtext.records.rows import as_written
from cxrtext.records.tables import Kind

if TYPE_CHECKING:
    from cxrtext.models.features.feature_map import FeatureMap

FEATURES = "features.json"
JOB = "job.json"  # written first; says how the folder is made
IMAGES, REJECTED = "images.csv", "rejected.csv"
COLUMNS: dict[str, Kind] = {  # of images.csv
    "image": "text",
    "shard": "whole",
    "row": "whole",
    "height": "whole",
    "width": "whole",
}
REGIONS, SIZES, LOOKS = "regions", "sizes", "looks"
"""Arrays of a shard: [n, 1, g, g, R] float16, [n, 2] int32, and [n, 192] float32, the looks of the
images' center crops (:mod:`cxrtext.models.familiar`)."""
LOOK = 192  # numbers in a look
BESIDE_BYTES = 4 * LOOK + 4 * 2  # bytes per image in a shard, apart from its regions
FORMAT = "cxrtext features"
VERSION = 1

OPEN = 64  # most shards mapped at once


@dataclass(frozen=True, slots=True)
class FeatureShard:
    file: str  # its name in the folder
    rows: int
    digits: str  # the beginning of its SHA-256


def write_features(
    folder: Path,
    *,
    backbone: Mapping[str, Any],
    feature_map: Mapping[str, Any],
    shape: tuple[int, int, int],
    shards: Sequence[FeatureShard],
    rejected: int,
    files: Mapping[str, str],
    more: Mapping[str, Any],
) -> None:
    """Write ``features.json``, which completes a folder of features.

    The folder has the shards, ``images.csv`` and ``rejected.csv``.  ``backbone`` and
    ``feature_map`` are the notes of these.

    Args:
        shape: (g, g, R).
        shards: In order; places count through them.
        files: The files of the "map" and of the "golden" image.
        more: Further notes, such as "command": the command that makes the folder, without --out.
    """
    listed = {IMAGES, REJECTED, *files.values()}
    write_sealed(
        folder / FEATURES,
        {
            "format": FORMAT,
            "version": VERSION,
            **more,
            "backbone": dict(backbone),
            "map": dict(feature_map),
            "views": 1,  # the center crop
            "shape": list(shape),
            "images": sum(shard.rows for shard in shards),
            "rejected": rejected,
            "files": dict(files),
            "sums": {name: sha256(folder / name) for name in sorted(listed)},
            "shards": [[shard.file, shard.rows, shard.digits] for shard in shards],
        },
    )


def open_features(folder: Path, *, check: bool = False) -> "FeatureFolder":
    """Open a folder of features that ``cxrtext encode`` wrote.

    ``check`` compares every shard with its digest now, not when it is first used.
    """
    features = FeatureFolder(folder, _read_about(folder))
    features.check(contents=check)
    return features


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / FEATURES
    if not path.is_file():
        if (command := _command_of(folder)) is None:
            raise NotFoundError(
                f"{folder}: holds no features; make them with 'cxrtext encode MANIFEST --backbone "
                f"DIR --out {folder}'"
            )
        raise NotFoundError(f"{folder}: the features are not finished; continue with '{command}'")
    try:
        about = read_sealed(path)
        kind = about["format"], about["version"]
    except (OSError, ValueError, KeyError) as error:
        command = _command_of(folder)
        again = f"make it again with '{command}'" if command else "encode the images again"
        raise CheckpointError(f"{path}: is damaged ({error}); {again}") from None
    if kind != (FORMAT, VERSION):
        raise CheckpointError(
            f"{path}: was written by another version of cxrtext ({about.get('cxrtext')}); encode "
            "the images again, into another folder"
        )
    return about


def _command_of(folder: Path) -> str | None:
    """The command that makes a folder; None without a job."""
    try:
        return _whole(json.loads((folder / JOB).read_bytes())["shared"]["command"], folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _whole(command: str, folder: Path) -> str:
    return f"{command} --out {shlex.quote(str(folder))}"


class FeatureFolder:
    """Features of n images; made by :func:`open_features`.

    A place is the number of an image across all shards, from 0.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self.about = about
        self.backbone: Mapping[str, Any] = about["backbone"]
        grid_h, grid_w, width = map(int, about["shape"])
        self.shape = grid_h, grid_w, width
        self.shards = [FeatureShard(str(f), int(n), str(d)) for f, n, d in about["shards"]]
        self._starts = np.cumsum([0, *(shard.rows for shard in self.shards)])
        self._sound: set[str] = set()  # names of checked files
        self._mapped = lru_cache(maxsize=OPEN)(self._map_shard)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def map(self) -> "FeatureMap":
        """The map that reduced the backbone's regions, to apply to new images too."""
        from safetensors.torch import load

        from cxrtext.models.features.feature_map import FeatureMap

        return FeatureMap.from_note(dict(self.about["map"]), load(self._read_file("map")))

    @cached_property
    def golden(self) -> Mapping[str, NDArray[Any]]:
        """An image and the backbone's regions for it."""
        from safetensors.numpy import load

        arrays: dict[str, NDArray[Any]] = load(self._read_file("golden"))
        return arrays

    @cached_property
    def rejected(self) -> Mapping[str, str]:
        """Why images of the manifest are missing, by name."""
        with self._listed(REJECTED).open(encoding="utf-8", newline="") as handle:
            return {as_written(row["item"]): row["reason"] for row in csv.DictReader(handle)}

    def why_not(self, name: str) -> str:
        return self.rejected.get(name, f"not in {self.folder}; encode the manifest that names it")

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The place of each image by its name, -1 if it has none; reads ``images.csv`` once."""
        places = dict.fromkeys(names, -1)
        with self._listed(IMAGES).open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                if (name := as_written(row["image"])) in places:
                    places[name] = int(self._starts[int(row["shard"])]) + int(row["row"])
        return np.fromiter((places[name] for name in names), np.int64, len(names))

    def of(self, places: ArrayLike) -> NDArray[np.float16]:
        """Features [b, g, g, R] of images at places [b], read into memory."""
        return self._rows(places, REGIONS, self.shape, np.float16)

    def sizes(self, places: ArrayLike) -> NDArray[np.int32]:
        """Height and width [b, 2] of the originals of images, in pixels."""
        return self._rows(places, SIZES, (2,), np.int32)

    def looks(self, places: ArrayLike) -> NDArray[np.float64]:
        """Looks of images, [b, 192] (:mod:`~cxrtext.models.familiar`)."""
        return self._rows(places, LOOKS, (LOOK,), np.float64)

    def _rows(
        self, places: ArrayLike, array: str, shape: tuple[int, ...], kind: type[Any]
    ) -> NDArray[Any]:
        wanted = np.asarray(places, dtype=np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < len(self)):
            raise IndexError(f"places are from 0 to {len(self) - 1}")
        rows = np.empty((len(wanted), *shape), dtype=kind)
        shards = np.searchsorted(self._starts, wanted, side="right") - 1
        for number in np.unique(shards):
            chosen = np.flatnonzero(shards == number)
            rows[chosen] = self._mapped(number)[array][wanted[chosen] - self._starts[number]]
        return rows

    def check(self, *, contents: bool = True) -> None:
        """Check that all files of ``features.json`` exist and, with ``contents``, their digests."""
        shards = {shard.file: shard.digits for shard in self.shards}
        for name, digits in {**self.about["sums"], **shards}.items():
            self._found(name, digits if contents else None)

    def _map_shard(self, number: int) -> dict[str, NDArray[Any]]:
        from safetensors.torch import load_file  # maps the file

        path = self._found(self.shards[number].file, self.shards[number].digits)
        arrays = {name: tensor.numpy() for name, tensor in load_file(path).items()}
        return {**arrays, REGIONS: arrays[REGIONS][:, 0]}  # the center crop

    def _read_file(self, kind: str) -> bytes:
        return self._listed(self.about["files"][kind]).read_bytes()

    def _listed(self, name: str) -> Path:
        return self._found(name, self.about["sums"][name])

    def _found(self, name: str, digits: str | None) -> Path:
        """The path of an existing file; its SHA-256 is checked once against its first digits."""
        path, fault = self.folder / name, None
        try:
            path = file_in(self.folder, name)
            if digits is not None and name not in self._sound:
                if sha256(path).startswith(digits):
                    self._sound.add(name)
                else:
                    fault = f"{path}: is damaged"
        except (FileNotFoundError, NotADirectoryError):
            fault = f"{path}: is missing"
        except ValueError as error:
            fault = f"{self.folder / FEATURES}: {error}"
        if fault:
            raise CheckpointError(
                f"{fault}; make it again with '{_whole(self.about['command'], self.folder)}'"
            )
        return path
