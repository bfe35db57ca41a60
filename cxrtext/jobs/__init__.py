"""Archive jobs: work on millions of images as immutable shards, by processes of Dask's.

``plan``: what a job is; ``shards``: a shard as a file; ``cluster``: the processes that make shards;
``driver``: from the shards that are missing to those that are there; ``status``: how far a job is;
``job``: what a kind of job has to say; ``embed``, ``encode``: the kinds.
"""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.jobs.driver import EveryNth, Running
    from cxrtext.jobs.embed import Embedded, EmbedOptions, embed_job
    from cxrtext.jobs.encode.begin import EncodeOptions
    from cxrtext.jobs.encode.job import Encoded, encode_images
    from cxrtext.jobs.status import JobStatus, job_status

__all__ = [
    "EmbedOptions",
    "Embedded",
    "EncodeOptions",
    "Encoded",
    "EveryNth",
    "JobStatus",
    "Running",
    "embed_job",
    "encode_images",
    "job_status",
]

import_on_use(__name__)
