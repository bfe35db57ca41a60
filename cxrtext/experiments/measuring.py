"""What a trained run is worth: its evaluation, and the measures on every resample beside it."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cxrtext import __version__
from cxrtext.evaluation import Evaluation, Settings, area_under_curve, evaluate
from cxrtext.evaluation.bootstrap import Resampled, draw
from cxrtext.experiments.measures import OF_FINDING, Measures, write_measures
from cxrtext.experiments.rows import MEASURES
from cxrtext.experiments.runs import FORMAT, METRICS, RESAMPLED
from cxrtext.files import write_sealed
from cxrtext.images.cache import DecodedCache


def _by_finding(evaluation: Evaluation) -> Measures:
    """AUC of each finding, on the resamples that its mean is measured on."""
    details = evaluation.details
    if details is None or details.zero_shot is None:
        return {}
    cohort, settings = details.cohort, details.settings
    counts = draw(cohort.patients, settings.resamples, (settings.seed, 0))
    found: Measures = {}
    for name, one in details.zero_shot.scores.items():
        area = evaluation.classification[name].auc
        if area is not None:
            values = area_under_curve(one.scores, one.truth, counts[:, one.rows])
            studies = (*(cohort.studies[row] for row in one.rows), *one.truth.tolist())
            found[OF_FINDING + name] = Resampled(area, values, studies)
    return found


def measures_of(evaluation: Evaluation) -> Measures:
    """The measures of table 1 that an evaluation has, and the AUC of each finding.

    Args:
        evaluation: With its details.
    """
    held = evaluation.details.resampled if evaluation.details else {}
    return {name: held[name] for name in MEASURES if name in held} | _by_finding(evaluation)


def machine(device: str) -> str:
    """The machine in words, without its name: "2 cores, CPU"."""
    cores = f"{os.cpu_count() or 1} cores"
    if torch.device(device).type == "cuda":
        return f"{cores}, {torch.cuda.get_device_name(device)}"
    return f"{cores}, CPU"


def versions() -> dict[str, str]:
    """Versions of what computed."""
    return {
        "cxrtext": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def measure(
    folder: Path, checkpoint: Path, job: Mapping[str, Any], device: str, noted: Mapping[str, Any]
) -> None:
    """Evaluate a checkpoint and write ``resampled.npz``, then ``metrics.json``.

    Args:
        folder: The run's folder.
        checkpoint: The model's folder.
        job: ``data``, ``cache``, ``split`` and ``resamples``.
        device: Where to compute.
        noted: Goes into ``metrics.json`` beside the evaluation.
    """
    evaluation = evaluate(
        checkpoint,
        Path(job["data"]),
        split=str(job["split"]),
        device=device,
        cache=DecodedCache(Path(job["cache"])),
        settings=Settings(resamples=int(job["resamples"])),
    )
    write_measures(folder / RESAMPLED, measures_of(evaluation))
    write_sealed(
        folder / METRICS,
        {
            "format": FORMAT,
            "evaluation": evaluation.to_dict(),
            **noted,
            "machine": machine(device),
            "threads": torch.get_num_threads(),
            "versions": versions(),
        },
    )
