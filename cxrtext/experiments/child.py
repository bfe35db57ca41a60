"""``python -m cxrtext.experiments.child FOLDER``: train and measure one run.

A process of its own for each run, so that rows train side by side and one that fails or dies takes
no other along.  It ends with whoever started it: when its standard input closes, it stops as on
Ctrl-C, saving its state.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cxrtext.config import load_config, read_objective
from cxrtext.device import choose_device
from cxrtext.errors import CxrTextError
from cxrtext.evaluation import Evaluation, Settings, evaluate
from cxrtext.evaluation.classification.zero_shot import ZeroShot, classify, measure_zero_shot
from cxrtext.evaluation.data import read_data_folder
from cxrtext.evaluation.intervals.bootstrap import Resampled, draw
from cxrtext.evaluation.intervals.comparison import OF_FINDING
from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.evaluation.result import Details
from cxrtext.evaluation.rows import ZERO_SHOT
from cxrtext.evaluation.truth import measure_truth
from cxrtext.experiments.data.images import Floats, ImageSet, read_set
from cxrtext.experiments.papers.table1 import CONFIG, MEASURES, MORE_PROMPTS, PROMPTS, TOP10
from cxrtext.experiments.simclr.encoders import encode
from cxrtext.experiments.simclr.losses import ViewSet, ViewSettings
from cxrtext.experiments.simclr.probes import PROBES, Features, resamples_of
from cxrtext.experiments.simclr.train import train_views
from cxrtext.experiments.stages import (
    FORMAT,
    JOB,
    METRICS,
    RESAMPLED,
    Measures,
    machine,
    noted_in,
    versions,
    write_measures,
)
from cxrtext.files import read_sealed, write_sealed
from cxrtext.images.cache import DecodedCache
from cxrtext.images.simclr import SimclrSpec
from cxrtext.models.features import open_features
from cxrtext.phantom.truth import read_truth
from cxrtext.training import Listener, train
from cxrtext.training.loop.job import StepReport
from cxrtext.training.objectives.shared.metadata import Clustered, Columns, Kind, cluster
from cxrtext.training.objectives.shared.objective import as_objective

SPENT, TRAINED = "spent.json", "trained.json"
"""Seconds spent on training so far, and what the training came to."""
NOTE_SECONDS = 2.0
"""How often a line is printed and the seconds spent are noted."""


def end_with_parent() -> None:
    """Stop as on Ctrl-C when standard input closes, as it does when the parent dies."""

    def wait() -> None:
        # Not through sys.stdin: its lock, held by this thread, would break the end of Python.
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def seconds_spent(folder: Path) -> float:
    try:
        return float(read_sealed(folder / SPENT)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def listener_of(folder: Path) -> Listener:
    before, begun = seconds_spent(folder), time.monotonic()
    last = [begun]

    def step(report: StepReport, total: int) -> None:
        now = time.monotonic()
        if report.step < total and now - last[0] < NOTE_SECONDS:
            return
        last[0] = now
        write_sealed(folder / SPENT, {"seconds": round(before + now - begun, 1)})
        say(f"step {report.step}/{total}  loss {report.loss:.4f}")

    return Listener(say=say, step=step)


def _note_trained(folder: Path, steps: int, images: int) -> None:
    noted = {"steps": steps, "images": images, "seconds": seconds_spent(folder)}
    write_sealed(folder / TRAINED, noted)


def _measures_of(evaluation: Evaluation) -> Measures:
    """The measures of table 1 that an evaluation has, and the AUC of each finding."""
    details, compared = evaluation.details, evaluation.rows.compared
    held = {k: one for k, one in compared.items() if isinstance(one, Resampled)}
    found: Measures = {name: held[name] for name in MEASURES if name in held}
    if details is None:
        return found
    found |= _beyond(details, Path(evaluation.data))
    if (first := held.get("sentence to image R@10")) is not None:
        found[TOP10] = first
    if not evaluation.scores:
        return found
    zero_shot = ZeroShot(evaluation.rows, evaluation.scores)
    areas = _areas(zero_shot, details)
    found |= {OF_FINDING + name: one for name, one in areas.items()}
    mean = _mean_area(areas, zero_shot)
    return {**found, "AUC": mean} if mean is not None else found


def _areas(zero_shot: ZeroShot, details: Details) -> Measures:
    """The AUC of each finding on resamples, over which the trainings of a row are averaged."""
    cohort, settings = details.cohort, details.settings
    counts = draw(cohort.patients, settings.resamples, (settings.seed, 0))
    found: Measures = {}
    for name, one in zero_shot.scores.items():
        auc = zero_shot.rows.value(ZERO_SHOT, name, "AUC")
        if auc is not None:
            values = area_under_curve(one.scores, one.truth, counts[:, one.rows])
            studies = (*(cohort.studies[row] for row in one.rows), *one.truth.tolist())
            patients = len({cohort.patients[row] for row in one.rows})
            found[name] = Resampled(auc, values, studies, patients=patients)
    return found


def _mean_area(areas: Measures, zero_shot: ZeroShot) -> Resampled | None:
    if not areas or set(areas) != set(zero_shot.scores):
        return None
    values = np.mean([one.values for one in areas.values()], axis=0)
    rows = tuple(row for one in areas.values() for row in one.rows)
    patients = min(one.patients or 0 for one in areas.values()) or None
    estimate = float(np.mean([one.estimate for one in areas.values()]))
    return Resampled(estimate, values, rows, patients=patients)


def _beyond(details: Details, data: Path) -> Measures:
    """What the paper does not measure, as far as the data allow it."""
    found: Measures = {}
    model, cohort, settings = details.model, details.cohort, details.settings
    labels = read_data_folder(data).labels
    if labels is not None:
        several = measure_zero_shot(classify(model, cohort, PROMPTS, labels, settings), settings)
        mean = _mean_area(_areas(several, details), several)
        found |= {MORE_PROMPTS: mean} if mean is not None else {}
    known = read_truth(data)
    if known is not None:
        found |= measure_truth(model, cohort, known, settings)
    return found


def _pairs(folder: Path, job: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    config = load_config(folder / CONFIG)
    if not ((folder / TRAINED).is_file() and (config.out / "checkpoint").is_dir()):
        # A run that was killed before its first state was saved starts afresh.
        resume, heard = (config.out / "state").is_dir(), listener_of(folder)
        summary = train(config, resume=resume, listener=heard)
        _note_trained(folder, summary.steps, summary.images)
    say("measuring")
    device = str(choose_device(config.training.device))
    evaluation = evaluate(
        config.out / "checkpoint",
        Path(job["data"]),
        split=str(job["split"]),
        device=device,
        cache=DecodedCache(Path(job["cache"])),
        features=open_features(Path(job["features"])) if job.get("features") else None,
        settings=Settings(resamples=int(job["resamples"])),
    )
    write_measures(folder / RESAMPLED, _measures_of(evaluation))
    return {
        "evaluation": evaluation.to_dict(),
        "configuration": config.model_dump(mode="json"),
        "budget": noted_in(folder / TRAINED),
    }, device


def view_settings(plain: Mapping[str, Any]) -> ViewSettings:
    given = dict(plain)
    augmentation: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.pop("augmentation", {}).items()
    }
    return ViewSettings(
        objective=as_objective(read_objective(given.pop("objective"))),
        head=tuple(given.pop("head")),
        augmentation=SimclrSpec(**augmentation),
        **given,
    )


def view_set(held: ImageSet, settings: ViewSettings) -> ViewSet:
    """The training images of a set with what the objective reads, such as clusters of metadata."""
    metadata, kinds = held.metadata, held.kinds
    section = settings.objective
    if metadata is not None and isinstance(section, Clustered):
        metadata, kinds = _clusters(metadata, kinds, section.clusters, settings.seed), ("category",)
    return ViewSet(
        images=torch.from_numpy(held.train.images),
        labels=None if held.labels is None else torch.from_numpy(held.labels),
        eta=None if held.eta is None else torch.from_numpy(held.eta),
        metadata=None if metadata is None else torch.from_numpy(metadata),
        kinds=kinds,
    )


def _clusters(values: Floats, kinds: tuple[Kind, ...], clusters: int | None, seed: int) -> Floats:
    """K-means of metadata, or its distinct rows, [n, 1]."""
    if clusters is None:
        _, codes = np.unique(values, axis=0, return_inverse=True)
        return np.asarray(codes.reshape(-1, 1), dtype=np.float32)
    fit = np.ones(len(values), dtype=np.bool_)
    return cluster(Columns(kinds, values), fit, min(clusters, len(values)), seed)


def _views(folder: Path, job: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    settings = view_settings(job["settings"])
    held = read_set(Path(job["data"]))
    encoder = train_views(
        view_set(held, settings),
        settings,
        folder / "train",
        device=str(job["device"]),
        listener=listener_of(folder),
    )
    _note_trained(folder, settings.steps, settings.steps * settings.batch)
    say("measuring")
    train_features, test_features = (
        encode(encoder, torch.from_numpy(part.images)) for part in (held.train, held.test)
    )
    features = Features(
        train_features,
        test_features,
        held,
        resamples_of(held.test, int(job["resamples"])),
        settings.seed,
        int(job["epochs"]),
        int(job["probe_steps"]),
    )
    write_measures(folder / RESAMPLED, PROBES[str(job["probe"])](features))
    return {
        "settings": settings.deciding(),
        "images": len(held.train.images),
        "measured": len(held.test.images),
        "budget": noted_in(folder / TRAINED),
    }, str(encoder.mean.device)


def main(arguments: list[str] | None = None) -> int:
    folder = Path((arguments if arguments is not None else sys.argv[1:])[0])
    try:
        job = noted_in(folder / JOB)
        noted, device = _views(folder, job) if "probe" in job else _pairs(folder, job)
        computed = {"threads": torch.get_num_threads(), "versions": versions()}
        found = {"format": FORMAT, **noted, "machine": machine(device), **computed}
        write_sealed(folder / METRICS, found)
    except CxrTextError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())
