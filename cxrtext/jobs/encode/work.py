"""What a worker does: the images of a shard, encoded and committed."""

import hashlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError
from cxrtext.files.digests import DIGITS
from cxrtext.files.storage import Storage, open_storage
from cxrtext.images.cache import DecodedCache
from cxrtext.images.reader_pool import ReaderPool
from cxrtext.jobs.encode.encoder import BATCH, Encoder, full_batches
from cxrtext.jobs.encode.options import KIND
from cxrtext.jobs.engines.engine import Task, readers_here
from cxrtext.jobs.kept import Kept
from cxrtext.jobs.plan import Plan, read_plan
from cxrtext.jobs.shards import Shard, commit_shard, digest_of_names
from cxrtext.models.features.folder import LOOKS, REGIONS, SIZES

if TYPE_CHECKING:
    from cxrtext.errors import ImageError
    from cxrtext.images import Preprocessing
    from cxrtext.images.reader_pool import ReadImage
    from cxrtext.models.features import FeatureMap


@dataclass(frozen=True, slots=True)
class EncodeWork:
    """Encodes the images of a task and commits their shard."""

    address: str  # of the job
    backbone: str  # folder
    device: str = "cpu"
    readers: int = 1  # processes that decode
    cache: str | None = None  # folder of decoded images

    def __call__(self, task: Task) -> None:
        """Make a shard."""
        made = _opened(self)
        commit_shard(made.storage, made.plan.digest, made.shard(task))


@dataclass(frozen=True)
class _Opened:
    """What a process keeps from task to task."""

    storage: Storage
    plan: Plan
    encoder: Encoder
    map: "FeatureMap"
    reader: "Reader"

    def shard(self, task: Task) -> Shard:
        from cxrtext.models.familiar import looks

        preprocessing = self.encoder.backbone.preprocessing
        seen: list[NDArray[np.float64]] = []
        places: list[int] = []
        rejected: dict[int, str] = {}
        features: list[NDArray[np.float16]] = []
        sizes: list[tuple[int, int]] = []
        names = [name for _, name in task.rows]
        with closing(self.reader.squares([Path(path) for path, _ in task.rows])) as read:
            for rows, images, failed in full_batches(read):
                rejected |= dict(failed)
                if images:
                    squares = [image.pixels for image in images]
                    named = [names[row] for row in rows]
                    features.append(self.encoder.features(squares, named, self.map))
                    seen.append(looks(np.stack(squares), preprocessing))
                    places += rows
                    sizes += [(image.height, image.width) for image in images]
        arrays: dict[str, NDArray[Any]] = {}
        if places:
            arrays = {
                REGIONS: np.concatenate(features),
                SIZES: np.array(sizes, np.int32),
                LOOKS: np.concatenate(seen).astype(np.float32),
            }
        about = {"images": digest_of_names(names[place] for place in places)}
        return Shard(task.number, places, rejected, about, arrays)


class Reader:
    """Gives squares of image files, decoded in other processes or found in a cache.

    Args:
        preprocessing: How the backbone wants them.
        readers: Processes that decode.
        cache: Decoded images that are there already; nothing is added to it.
    """

    def __init__(
        self, preprocessing: "Preprocessing", readers: int, cache: Path | None = None
    ) -> None:
        self._preprocessing = preprocessing
        self._pool = ReaderPool(readers)
        self._cache = DecodedCache(cache) if cache else None

    def squares(self, paths: "Iterable[Path]") -> "Generator[ReadImage | ImageError, None, None]":
        """The square of each file, in order, or why there is none."""
        if self._cache is None:
            yield from self._pool.map(paths, square=self._preprocessing, ahead=BATCH)
        else:
            yield from self._cache.read(
                [*paths], self._preprocessing, processes=self._pool.workers, ahead=BATCH, keep=False
            )

    def close(self) -> None:
        """End the processes."""
        self._pool.close()


def _open(work: EncodeWork) -> _Opened:
    import torch
    from safetensors.numpy import load as load_arrays

    from cxrtext.models.backbones import load_backbone
    from cxrtext.models.backbones.golden import check_golden

    storage = open_storage(work.address)
    plan = read_plan(storage, KIND)
    asked, shared = plan.definition, plan.shared
    torch.set_num_threads(asked["threads"])
    backbone = load_backbone(
        Path(work.backbone),
        size=asked["--size"],
        device=work.device,
        precision=asked["--precision"],
    )
    if backbone.digest != asked["backbone"]:
        raise CheckpointError(
            f"{work.backbone}: is another backbone here than the one that the job was begun with; "
            "copy that one to every machine"
        )
    check_golden(backbone, load_arrays(read_checked(storage, shared["golden"])))
    encoder = Encoder(backbone, views=asked["--views"], seed=asked["--seed"])
    reader = Reader(
        backbone.preprocessing, readers_here(work.readers), Path(work.cache) if work.cache else None
    )
    return _Opened(storage, plan, encoder, _map_of(storage, shared, work.device), reader)


_opened = Kept(_open, lambda opened: opened.reader.close())


def _map_of(storage: Storage, shared: Mapping[str, Any], device: str) -> "FeatureMap":
    from safetensors.torch import load

    from cxrtext.models.features import FeatureMap

    tensors = load(read_checked(storage, shared["map"]))
    return FeatureMap.from_note(shared["map_note"], tensors).to(device)


def read_checked(storage: Storage, name: str) -> bytes:
    """Read a file that carries digits of its digest in its name.

    Raises:
        CheckpointError: It is not what was written.
    """
    data = storage.read(name)
    if name.split(".")[-2] != hashlib.sha256(data).hexdigest()[:DIGITS]:
        raise CheckpointError(
            f"{storage.address}: {name} is damaged; start the job anew in another folder"
        )
    return data
