"""What is encoded and how: the options of ``cxrtext encode``, and what of them makes a job."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ConfigError
from cxrtext.images.cache_store import READER_VERSION
from cxrtext.jobs.encode.encoder import BATCH
from cxrtext.jobs.plan import Definition, digest_of_table

if TYPE_CHECKING:
    from cxrtext.models.backbones import Backbone
    from cxrtext.models.backbones.backbone import Precision

KIND = "encode"
SHARD_BYTES = 2**26
SHARD_ROWS = 128
"""A shard is of so many bytes or of so many images, whichever are fewer, but of a batch at least.

An image takes seconds in a large backbone, and a worker that is killed loses its shard.
"""


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """What comes out, and who does it."""

    size: int | None = None  # side of the model's input in pixels; None for its own
    grid: int | None = None  # most cells along each axis; None keeps the backbone's own
    reduce: int | None = None  # principal components that are kept; None keeps every channel
    views: int = 1  # of each image: the first is the center crop, the others are drawn
    seed: int = 0  # of the views, and of the images that the map is fitted to
    precision: "Precision" = "float32"  # or "bfloat16": of the backbone's arithmetic
    shard: int | None = None  # images a shard, rounded up to whole batches
    threads: int = 1  # of a worker's model; sums depend on it, so it is the job's
    max_rejected: int = 100
    cache: Path | None = None  # decoded images that are there already
    allow_outside: bool = False  # whether images may lie outside the manifest's folder
    device: str = "cpu"
    workers: int | None = None  # None: one a core
    engine: str = "local"
    cluster: str | None = None  # address of one that runs, for the engine "dask"

    def check(self) -> None:
        """Refuse what is out of range (ConfigError)."""
        for name in ("size", "grid", "reduce", "views", "shard", "threads", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"--{name} {value}: must be at least 1")

    def images_a_shard(self, image_bytes: int) -> int:
        """Images a shard, in whole batches, where each has features of so many bytes."""
        wanted = self.shard or min(SHARD_ROWS, max(1, SHARD_BYTES // image_bytes))
        if self.shard is None:
            return max(BATCH, wanted // BATCH * BATCH)
        return -(-wanted // BATCH) * BATCH


def definition_of(
    manifest: Path, backbone: "Backbone", options: EncodeOptions, shard: int
) -> Definition:
    """What must be equal for a job to go on."""
    return {
        "manifest": digest_of_table(manifest),
        "--size": options.size,
        "preprocessing": backbone.preprocessing.to_dict(),
        "backbone": backbone.digest,
        "--grid": options.grid,
        "--reduce": options.reduce,
        "--views": options.views,
        "--seed": options.seed,
        "--precision": options.precision,
        "--shard": shard,
        "threads": options.threads,
        "version of the image reader": READER_VERSION,
    }


def command_of(manifest: Path, backbone: Path, options: EncodeOptions) -> str:
    """The command that begins, goes on with and mends features, up to --out."""
    words: list[Any] = ["cxrtext", "encode", manifest.resolve(), "--backbone", backbone.resolve()]
    usual = EncodeOptions()
    for name in (
        "size", "grid", "reduce", "views", "seed", "precision", "shard", "threads", "max_rejected",
    ):  # fmt: skip
        if getattr(options, name) != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", getattr(options, name)]
    words += ["--allow-outside"] if options.allow_outside else []
    return shlex.join(map(str, words))
