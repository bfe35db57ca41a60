"""The experiments by name."""

from collections.abc import Callable, Mapping

from cxrtext.errors import ConfigError
from cxrtext.experiments.options import ExperimentListener, ExperimentOptions, Outcome


def _table1(options: ExperimentOptions, listener: ExperimentListener) -> Outcome:
    # Imported when it is wanted: it needs torch, and listing the names does not.
    from cxrtext.experiments.table1 import table1

    return table1(options, listener)


EXPERIMENTS: Mapping[
    str, tuple[str, Callable[[ExperimentOptions, ExperimentListener], Outcome]]
] = {
    "table1": ("every correction for false negatives, trained with an equal budget", _table1),
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
        DataError: The data folder lacks what the experiment needs.
        WorkError: Another process runs it in the same folder.
    """
    if name not in EXPERIMENTS:
        known = "; ".join(f"{key}: {what}" for key, (what, _) in EXPERIMENTS.items())
        raise ConfigError(f"there is no experiment '{name}'; there is {known}")
    _, function = EXPERIMENTS[name]
    return function(options or ExperimentOptions(), listener or ExperimentListener())
