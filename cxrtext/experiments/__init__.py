"""The papers' experiments; each is one resumable command that prints its table with the paper's."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.experiments.definition import (
        EXPERIMENTS,
        ExperimentListener,
        ExperimentOptions,
        Outcome,
    )
    from cxrtext.experiments.runner import run_experiment

__all__ = [
    "EXPERIMENTS",
    "ExperimentListener",
    "ExperimentOptions",
    "Outcome",
    "run_experiment",
]

import_on_use(__name__)
