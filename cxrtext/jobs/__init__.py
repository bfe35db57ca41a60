"""Archive jobs: work on millions of images or reports as immutable shards, on an engine.

``plan``: what a job is; ``shards``: a shard as a file; ``engines``: what runs the shards;
``driver``: from the shards that are missing to those that are there; ``status``: how far a job is;
``kind``: what a kind of job has to say; ``embed``, ``score``, ``decode``, ``encode``: the kinds.
"""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.jobs.decode import DecodeOptions, FinishedDecoding, decode_job, finish_decode
    from cxrtext.jobs.driver import EveryNth, Running
    from cxrtext.jobs.embed import EmbedOptions, FinishedEmbedding, embed_job, finish_embed
    from cxrtext.jobs.encode.begin import EncodeOptions
    from cxrtext.jobs.encode.job import Encoded, encode_images
    from cxrtext.jobs.score import ScoreOptions, finish_score, score_job
    from cxrtext.jobs.status import JobStatus, job_status

__all__ = [
    "DecodeOptions",
    "EmbedOptions",
    "EncodeOptions",
    "Encoded",
    "EveryNth",
    "FinishedDecoding",
    "FinishedEmbedding",
    "JobStatus",
    "Running",
    "ScoreOptions",
    "decode_job",
    "embed_job",
    "encode_images",
    "finish_decode",
    "finish_embed",
    "finish_score",
    "job_status",
    "score_job",
]

import_on_use(__name__)
