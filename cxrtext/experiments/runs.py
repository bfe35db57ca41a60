"""What an experiment keeps on disk: stages, each done once, and the measures of runs."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.config import first_difference
from cxrtext.errors import ConfigError, DataError
from cxrtext.files import DAMAGED_ARCHIVE, read_sealed, replacing, write_sealed
from cxrtext.metrics.intervals import (
    TRAININGS,
    Area,
    Interval,
    Measured,
    Median,
    OnLogit,
    Share,
    average,
    with_training,
)

IDENTITY = "experiment.json"
"""The inputs that an experiment's folder was made with."""
METRICS, MEASURES = "metrics.json", "measures.npz"
"""In a run's folder: how it was trained, and what was measured."""
FORMAT = 8
"""Version of a measured run's files; runs of an older version are measured again."""
Measures = dict[str, Measured]
"""By name; if read from a file, ``rows`` is the digest of what was measured."""
KINDS = {kind.__name__: kind for kind in (Measured, OnLogit, Area, Share, Median)}


@dataclass(frozen=True, slots=True)
class Run:
    """One training of one row, in its own folder; ``settings`` decide it.

    The folder holds ``train/`` and, once it is measured, ``metrics.json`` and ``measures.npz``.
    Runs of a ``group``, the table that the row belongs to, are measured on the same images.
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
    """Read a JSON object that an experiment noted, or None."""
    if not path.is_file():
        return None
    try:
        return read_sealed(path)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; remove it, and the command makes it again") from None


def claim(out: Path, identity: Mapping[str, Any]) -> None:
    """Note in its folder what an experiment is made with, or check it against the note."""
    note = out / IDENTITY
    noted = read_json(note)
    if noted is None:
        # Hidden files may be left from a killed run that wrote the note; locks are ours.
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
    """Do a stage unless it is noted as done; returns its note, with ``seconds``."""
    note = out / "stages" / f"{name}.json"
    noted = read_json(note)
    if noted is not None and product.exists():
        return noted
    begun = time.monotonic()
    result = dict(work() or {})
    result["seconds"] = round(time.monotonic() - begun, 1)
    write_sealed(note, result)
    return result


def write_measures(path: Path, measures: Mapping[str, Measured]) -> None:
    """Write measures with the influence of each patient as ``.npz``, whole or not at all."""
    arrays: dict[str, Any] = {
        "names": np.array(list(measures), dtype=np.str_),
        "kinds": np.array([type(figure).__name__ for figure in measures.values()], dtype=np.str_),
    }
    for place, measure in enumerate(measures.values()):
        rows = hashlib.sha256(repr(measure.rows).encode()).hexdigest()[:16]
        values = {each.name: getattr(measure, each.name) for each in fields(measure)}
        for name, value in {**values, "rows": rows}.items():
            arrays[f"{place} {name}"] = np.asarray(value)
    with replacing(path) as temporary:
        np.savez_compressed(temporary, **arrays)


@contextmanager
def _opened(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        # Opened here, because NumPy leaves a file open that is no archive.
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            yield arrays
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not readable ({type(error).__name__}); remove {METRICS} beside it, and the "
            "command measures again"
        ) from None


def read_measures(path: Path) -> Measures:
    measures: Measures = {}
    with _opened(path) as arrays:
        for place, (name, kind) in enumerate(zip(arrays["names"], arrays["kinds"], strict=True)):
            of_kind = KINDS[str(kind)]
            values = {each.name: arrays[f"{place} {each.name}"] for each in fields(of_kind)}
            plain: dict[str, Any] = {n: v if v.ndim else v.item() for n, v in values.items()}
            plain["rows"] = (plain["rows"],)
            if of_kind is Area:
                plain["patients"] = tuple(plain["patients"].tolist())
            measures[str(name)] = of_kind(**plain)
    return measures


def paired(one: Measured, other: Measured) -> bool:
    """Whether two measures are for the same images."""
    return one.rows == other.rows and one.influence.shape == other.influence.shape


def mean_of_seeds(seeds: Sequence[Measures]) -> Measures:
    """The mean of the measures that all trainings of a row have, on the same images."""
    return {
        name: average([one[name] for one in seeds])
        for name in seeds[0]
        if all(name in one for one in seeds)
    }


def interval_of(each: Sequence[Measured]) -> Interval | None:
    """The interval of a mean over trainings; with three or more it includes the trainings'."""
    ends = average(each).interval()
    if ends is None or len(each) < TRAININGS:
        return ends
    return with_training([one.value for one in each], ends)


def machine(device: str) -> str:
    """The machine in words, without its name: "2 cores, CPU"."""
    import torch

    cuda = torch.device(device).type == "cuda"
    return f"{os.cpu_count() or 1} cores, {torch.cuda.get_device_name(device) if cuda else 'CPU'}"
