"""The papers' experiments, each one resumable command that prints its table beside the paper's."""

from cxrtext.experiments.options import ExperimentListener, ExperimentOptions, Outcome
from cxrtext.experiments.registry import EXPERIMENTS, run_experiment

__all__ = [
    "EXPERIMENTS",
    "ExperimentListener",
    "ExperimentOptions",
    "Outcome",
    "run_experiment",
]
