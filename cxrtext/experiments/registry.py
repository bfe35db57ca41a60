"""The experiments by name."""

from collections.abc import Callable, Mapping
from functools import partial

from cxrtext.errors import ConfigError
from cxrtext.experiments.options import ExperimentListener, ExperimentOptions, Outcome
from cxrtext.experiments.small.listing import SMALL_EXPERIMENTS

# What runs an experiment is imported when it is wanted: it needs torch, and listing does not.


def _table1(options: ExperimentOptions, listener: ExperimentListener) -> Outcome:
    from cxrtext.experiments.table1 import table1

    return table1(options, listener)


def _small(name: str, options: ExperimentOptions, listener: ExperimentListener) -> Outcome:
    from cxrtext.experiments.small.run import run_small

    return run_small(SMALL_EXPERIMENTS[name], options, listener)


EXPERIMENTS: Mapping[
    str, tuple[str, Callable[[ExperimentOptions, ExperimentListener], Outcome]]
] = {
    "table1": ("every correction for false negatives, trained with an equal budget", _table1),
    **{name: (one.summary, partial(_small, name)) for name, one in SMALL_EXPERIMENTS.items()},
}
"""Name, what it shows, and the function that runs it."""


def run_experiment(
    name: str,
    options: ExperimentOptions | None = None,
    listener: ExperimentListener | None = None,
) -> Outcome:
    """Run an experiment, or go on with it; what an earlier run finished is not repeated.

    Args:
        name: One of ``EXPERIMENTS``.
        options: What is asked of it.
        listener: Who hears how it goes.

    Returns:
        The table.

    Raises:
        ConfigError: There is no such experiment, or an option is wrong.
        DataError: The data lack what the experiment needs.
        WorkError: Another process runs it in the same folder.
    """
    if name not in EXPERIMENTS:
        known = "; ".join(f"{key}: {what}" for key, (what, _) in EXPERIMENTS.items())
        raise ConfigError(f"there is no experiment '{name}'; there is {known}")
    _, function = EXPERIMENTS[name]
    return function(options or ExperimentOptions(), listener or ExperimentListener())
