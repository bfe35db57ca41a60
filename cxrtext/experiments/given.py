"""Check what an experiment is given, and refuse what it cannot use; needs no torch."""

from typing import Any

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.data import find_table, manifest_of
from cxrtext.experiments.definition import Experiment, ExperimentOptions
from cxrtext.experiments.small_sets import ACCEPTED
from cxrtext.files import sha256
from cxrtext.models.features import open_features
from cxrtext.models.features.folder import FEATURES

TABLES = ("manifest", "reports", "labels", "boxes", "truth")
"""The tables of a data folder."""


def identity_of(experiment: Experiment, options: ExperimentOptions) -> dict[str, Any]:
    """The inputs that an experiment's folder is made with."""
    if experiment.given == "pairs":
        return _pairs(experiment, options)
    if options.features is not None:
        raise ConfigError("--features: small images take none; table1 does")
    if options.data is None:
        raise ConfigError(f"give {experiment.given} with --data: {ACCEPTED}")
    if not options.data.is_file():
        raise DataError(f"{options.data}: not a file; --data takes {ACCEPTED}")
    scale = experiment.scale(options.scale)
    sizes = {key: getattr(scale, key) for key in ("train", "test")}
    return {"scale": sizes, "data": sha256(options.data)}


def _pairs(experiment: Experiment, options: ExperimentOptions) -> dict[str, Any]:
    scale, given, features = experiment.scale(options.scale), options.data, options.features
    if features is not None and (not scale.start or "live" in scale.groups):
        raise ConfigError(f"--features: at --scale {options.scale} no row takes them")
    if given is None and not scale.studies:
        raise ConfigError(
            f"--scale {options.scale}: needs real data; give a data folder with --data"
        )
    data = None
    if given is not None:
        manifest_of(given)
        paths = [path for stem in TABLES if (path := find_table(given, stem))]
        data = {path.name: sha256(path) for path in paths}
    digest = sha256(open_features(features).folder / FEATURES) if features else None
    return {"scale": scale.model_dump(), "data": data, "features": digest}
