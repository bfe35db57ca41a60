"""What runs the tasks of a job: processes of this machine, or an engine that has many machines."""

from collections.abc import Sequence
from pathlib import Path

from cxrtext.errors import ConfigError
from cxrtext.jobs.engines.engine import Engine, Work

ENGINES = ("local", "dask")


def open_engine(
    name: str,
    work: Work,
    workers: int | None,
    *,
    address: str | None = None,
    gpu: bool = False,
    shared: Sequence[Path] = (),
) -> Engine:
    """Start an engine by name.

    Args:
        workers: Processes; None for one a core.
        address: Of a cluster that runs, for an engine that has such.
        gpu: Whether a task needs a GPU, which a cluster gives to one task at a time.
        shared: Files and folders that every machine of a cluster must see as this one does.

    Raises:
        ConfigError: There is no such engine, or it is not installed.
        DataError: A machine of the cluster does not see what is shared.
        WorkError: The cluster cannot be reached.
    """
    if name == "local":
        from cxrtext.jobs.engines.local import LocalEngine

        if address is not None:
            raise ConfigError("the engine 'local' takes no address; 'dask' does")
        return LocalEngine(work, workers)
    if name == "dask":
        from cxrtext.jobs.engines.dask import DaskEngine

        if address is not None and workers is not None:
            raise ConfigError("--workers: a cluster has its own; leave it out with --address")
        return DaskEngine(work, workers, address, gpu=gpu, shared=shared)
    raise ConfigError(f"there is no engine '{name}'; there are {', '.join(ENGINES)}")
