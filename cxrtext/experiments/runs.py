"""What an experiment notes on disk: stages, done once each; the measures of runs by resample."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.config import first_difference
from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.intervals.bootstrap import TRAININGS, Interval, Resampled, with_training
from cxrtext.evaluation.metrics import Floats
from cxrtext.files import DAMAGED_ARCHIVE, read_sealed, replacing, write_sealed

IDENTITY = "experiment.json"
"""What an experiment's folder was made with."""
METRICS, RESAMPLED = "metrics.json", "resampled.npz"
"""In a run's folder: how it was trained, and what was measured."""
FORMAT = 6
"""Of what a measured run leaves; one that an older version measured is measured again."""
Measures = dict[str, Resampled]
"""By name; of those read from a file ``rows`` is the digest of what was resampled."""


@dataclass(frozen=True, slots=True)
class Run:
    """One training of one row, in a folder of its own; ``settings`` are what decides it.

    The folder holds ``train/`` and, once it is measured, ``metrics.json`` and ``resampled.npz``.
    Runs of a ``group``, the table that the row stands in, are measured on the same images.
    """

    row: str
    seed: int
    folder: Path
    group: str
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.row}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Finished:
    run: Run
    noted: Mapping[str, Any]
    measures: Measures = field(repr=False)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object that an experiment noted; None where there is none."""
    if not path.is_file():
        return None
    try:
        return read_sealed(path)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; remove it, and the command makes it again") from None


def claim(out: Path, identity: Mapping[str, Any]) -> None:
    """Note what an experiment is made with in its folder, or check that it is what is noted."""
    note = out / IDENTITY
    noted = read_json(note)
    if noted is None:
        # Hidden files may be what a killed run has left of the note itself; locks are ours.
        left = [
            p.name
            for p in (out.iterdir() if out.is_dir() else ())
            if not p.name.startswith(".") and p.suffix != ".lock"
        ]
        if left:
            raise ConfigError(
                f"{out}: holds '{min(left)}' and no experiment; name another folder with --out"
            )
        write_sealed(note, identity)
        return
    if (different := first_difference(noted, json.loads(json.dumps(identity)))) is not None:
        key, before, now = different
        raise ConfigError(
            f"{note}: the folder holds an experiment with {key} {before!r}, not {now!r}; name "
            "another folder with --out, or remove this one"
        )


def stage(
    out: Path, name: str, product: Path, work: Callable[[], Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Do a stage unless it is noted as done; gives its note, with ``seconds``."""
    note = out / "stages" / f"{name}.json"
    noted = read_json(note)
    if noted is not None and product.exists():
        return noted
    begun = time.monotonic()
    result = dict(work() or {})
    result["seconds"] = round(time.monotonic() - begun, 1)
    write_sealed(note, result)
    return result


def write_measures(path: Path, measures: Mapping[str, Resampled]) -> None:
    """Write measures, all with the same number of resamples, as ``.npz``, whole or not at all."""
    each = list(measures.values())
    digests = [hashlib.sha256(repr(one.rows).encode()).hexdigest()[:16] for one in each]
    with replacing(path) as temporary:
        np.savez_compressed(
            temporary,
            names=np.array(list(measures), dtype=np.str_),
            estimates=np.array([one.estimate for one in each], dtype=np.float64),
            values=np.array([one.values for one in each], dtype=np.float64),
            digests=np.array(digests, dtype=np.str_),
            ends=np.array([one.ends or (np.nan, np.nan) for one in each], dtype=np.float64),
            patients=np.array([one.patients or 0 for one in each], dtype=np.int64),
        )


@contextmanager
def _opened(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        # Opened here: NumPy leaves a file that is no archive open.
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            yield arrays
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not readable ({type(error).__name__}); remove {METRICS} beside it, and the "
            "command measures again"
        ) from None


def read_measures(path: Path) -> Measures:
    with _opened(path) as arrays:
        names = ("names", "estimates", "values", "digests", "ends", "patients")
        return {
            str(name): Resampled(
                float(estimate),
                values,
                (str(digest),),
                None if np.isnan(low) else (float(low), float(high)),
                int(patients) or None,
            )
            for name, estimate, values, digest, (low, high), patients in zip(
                *(arrays[name] for name in names), strict=True
            )
        }


def paired(one: Resampled, other: Resampled) -> bool:
    """Whether two measures are of the same images, with the same resamples."""
    return one.rows == other.rows and len(one.values) == len(other.values)


def mean_of_seeds(seeds: Sequence[Measures], *, training: bool = True) -> Measures:
    """The mean, within each resample, of what all trainings of a row have, on the same images."""
    return {
        name: mean_of_trainings([one[name] for one in seeds], training=training)
        for name in seeds[0]
        if all(name in one for one in seeds)
    }


def mean_of_trainings(each: Sequence[Resampled], *, training: bool = True) -> Resampled:
    """The mean of one measure of trainings; three or more give an interval that includes training.

    Where each has an interval of its own, the ends of theirs are averaged first: no narrower than
    those of the mean.
    """
    estimates, first = [one.estimate for one in each], each[0]
    known = [one.ends for one in each if one.ends is not None]
    ends: Interval | None = None
    if len(known) == len(each):
        low, high = np.mean(known, axis=0)
        ends = float(low), float(high)
    values: Floats = np.mean([one.values for one in each], axis=0)
    mean = Resampled(float(np.mean(estimates)), values, first.rows, ends, first.patients)
    patients = mean.interval()
    if not training or len(each) < TRAININGS or patients is None:
        return mean
    return replace(mean, ends=with_training(estimates, patients))


def machine(device: str) -> str:
    """The machine in words, without its name: "2 cores, CPU"."""
    import torch

    cuda = torch.device(device).type == "cuda"
    return f"{os.cpu_count() or 1} cores, {torch.cuda.get_device_name(device) if cuda else 'CPU'}"
