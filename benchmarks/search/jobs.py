"""Images a second of an embed job, against one process and against a plain process pool.

    python benchmarks/search/jobs.py CHECKPOINT MANIFEST --work DIR [--shard 160] [--workers 1 2]
        [--dask]

``index build`` is one process as a user starts it.  The pool is ``ProcessPoolExecutor`` over the
very same work, shards and plan, so that what differs is the engine and the driver.  Seconds are of
the whole command, start of Python and loading of the model included, but for ``rate``, which is
that of the shards alone, from the first that is there to the last.  ``--dask`` adds the job on a
cluster of Dask's with as many workers, and on one whose nodes are processes of their own.
"""

import argparse
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cxrtext.files.storage import open_storage
from cxrtext.jobs.driver import image_tasks
from cxrtext.jobs.embed import IMAGE_S, START_S, EmbedWork
from cxrtext.jobs.engines.engine import readers_for
from cxrtext.jobs.plan import NAME, read_plan
from cxrtext.jobs.status import job_status
from cxrtext.records import read_manifest

COMMAND = [sys.executable, "-c", "from cxrtext_cli.main import main; main()"]


def timed(*arguments: object, threads: int | None = None) -> float:
    """Seconds that a command takes."""
    environment = dict(os.environ)
    environment.pop("OMP_NUM_THREADS", None)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    begun = time.perf_counter()
    subprocess.run(
        [*COMMAND, *map(str, arguments)], check=True, capture_output=True, env=environment
    )
    return time.perf_counter() - begun


def rate_of(job: Path) -> float:
    """Images a second between the first and the last shard."""
    return job_status(open_storage(job)).rate or float("nan")


def pooled(checkpoint: Path, manifest: Path, job: Path, workers: int) -> float:
    """Seconds of a plain pool over the same work; the plan is there."""
    storage = open_storage(job)
    plan = read_plan(storage)
    work = EmbedWork(storage.location, str(checkpoint.resolve()), "cpu", readers_for(workers))
    tasks = list(image_tasks(read_manifest(manifest), plan.definition["--shard"], START_S, IMAGE_S))
    begun = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        list(pool.map(work, tasks))
    return time.perf_counter() - begun


@contextmanager
def nodes(count: int) -> Iterator[str]:
    """A cluster of Dask's with nodes of one worker each; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, here = f"tcp://127.0.0.1:{port}", ["--host", "127.0.0.1", "--no-dashboard"]
    worker = ["worker", address, *here, "--nworkers", "1", "--nthreads", "1"]
    commands = [["scheduler", *here, "--port", str(port)], *[worker] * count]
    parts = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        yield address
    finally:
        for part in reversed(parts):
            part.terminate()
            part.wait()


def line(name: str, images: int, seconds: float, rate: float, against: float) -> None:
    """Print a row of the table."""
    print(
        f"| {name} | {seconds:.1f} | {images / seconds:.1f} | {rate:.1f} | {rate / against:.2f} |",
        flush=True,
    )


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--shard", type=int, default=160)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dask", action="store_true")
    options = parser.parse_args()
    images = len(read_manifest(options.manifest))
    model = ["--model", options.checkpoint, "--device", "cpu"]
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"{images} images, shards of {options.shard}, {os.cpu_count()} cores")
    print("| | s | images/s | rate, images/s | against the pool |")
    print("|---|---|---|---|---|")
    index = options.work / "index"
    seconds = timed("index", "build", options.manifest, "--out", index, *model)
    print(f"| index build | {seconds:.1f} | {images / seconds:.1f} | | |", flush=True)
    for workers in options.workers:
        job, plain = options.work / f"job-{workers}", options.work / f"pool-{workers}"
        shard, several = ["--shard", options.shard], ["--workers", workers]
        took = timed("job", "embed", options.manifest, "--out", job, *model, *shard, *several)
        plain.mkdir()
        for name in (NAME, read_plan(open_storage(job)).shared["sentences"]):
            shutil.copy(job / name, plain / name)
        alone = pooled(options.checkpoint, options.manifest, plain, workers)
        against = rate_of(plain)
        line(f"process pool, {workers}", images, alone, against, against)
        line(f"job embed, {workers}", images, took, rate_of(job), against)
        if options.dask:
            job = options.work / f"dask-{workers}"
            how = [*shard, "--engine", "dask"]
            took = timed("job", "embed", options.manifest, "--out", job, *model, *how, *several)
            line(f"on Dask, {workers}", images, took, rate_of(job), against)
            job = options.work / f"nodes-{workers}"
            with nodes(workers) as address:
                where = ["--address", address]
                took = timed("job", "embed", options.manifest, "--out", job, *model, *how, *where)
            line(
                f"on {workers} {'nodes' if workers > 1 else 'node'} of Dask",
                images,
                took,
                rate_of(job),
                against,
            )
        job = options.work / f"job-{workers}"
        finished = options.work / f"index-{workers}"
        took = timed("job", "finish", job, "--out", finished, "--device", "cpu")
        print(f"| job finish, {workers} | {took:.1f} | {images / took:.1f} | | |", flush=True)


if __name__ == "__main__":
    main()
