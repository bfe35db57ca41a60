"""Archive jobs: work on millions of images in immutable shards, with Dask's processes.

``plan``: what a job is; ``shards``: a shard as a file; ``cluster``: the processes that make shards;
``job``: make the missing shards; ``embed``, ``encode``: the kinds of jobs.
"""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.jobs.embed import EmbedOptions, embed_job
    from cxrtext.jobs.encode import EncodeOptions, encode_images

__all__ = [
    "EmbedOptions",
    "EncodeOptions",
    "embed_job",
    "encode_images",
]

import_on_use(__name__)
