"""The trainings of an experiment: a folder each, and what is in it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.config import load_config, write_config
from cxrtext.errors import ConfigError, CxrTextError
from cxrtext.experiments.data_tables import find_table
from cxrtext.experiments.preparation import Prepared
from cxrtext.experiments.rows import Row
from cxrtext.experiments.scales import Scale
from cxrtext.experiments.stages import first_difference, read_json
from cxrtext.files import write_sealed

CONFIG, JOB = "train.yaml", "job.json"
METRICS, RESAMPLED = "metrics.json", "resampled.npz"

FORMAT = 2
"""Of what a measured run leaves; one that an older version measured is measured again."""


@dataclass(frozen=True, slots=True)
class Run:
    """One training of one row.

    Args:
        row: The row.
        seed: Of the training.
        folder: Holds ``train.yaml``, ``job.json``, ``train/``, ``metrics.json``,
            ``resampled.npz`` and ``log.txt``.
        steps: How many there are to be.
    """

    row: Row
    seed: int
    folder: Path
    steps: int

    @property
    def name(self) -> str:
        """The run as a person is told of it."""
        return f"{self.row.name}, seed {self.seed}"

    @property
    def key(self) -> tuple[str, int]:
        """Its row and seed."""
        return self.row.name, self.seed

    @property
    def module(self) -> str:
        """What trains and measures it."""
        return "cxrtext.experiments.run_process"

    def is_done(self) -> bool:
        """Whether it is trained and measured."""
        return is_done(self)


def _tree(row: Row, seed: int, folder: Path, prepared: Prepared, scale: Scale) -> dict[str, Any]:
    """The configuration of a run; paths are relative to its folder, so that it can be moved."""

    def near(path: Path) -> str:
        return os.path.relpath(path.resolve(), folder.resolve())

    tree: dict[str, Any] = {name: dict(section) for name, section in scale.config.items()}
    for name, section in row.changes.items():
        tree.setdefault(name, {}).update(section)
    tree["data"].update(
        manifest=near(prepared.manifest),
        sentences=near(prepared.sentences),
        cache=near(prepared.cache),
    )
    model = Path(prepared.language_model)
    tree["model"]["text"] = near(model) if model.is_dir() else prepared.language_model
    if row.name == "resample-by-text":
        # Half of the batch, at every scale; a number as large as the batch would resample nothing.
        tree["objective"]["keep"] = max(1, int(tree["training"]["batch"]) // 2)
    # In the paper labels come from reports; phantoms have those beside what is truly shown.
    for key, owner, stem in (
        ("true_probability", "dcl-eta-true", "truth"),
        ("labels", "remove-by-labels", "labels_from_reports"),
    ):
        table = find_table(prepared.data, stem)
        if row.name == owner and table is not None:
            tree["objective"][key] = str(table.resolve())
    tree["training"]["seed"] = seed
    tree["out"] = "train"
    return tree


def plan(
    rows: Sequence[Row], seeds: int, out: Path, prepared: Prepared, scale: Scale
) -> tuple[list[Run], dict[str, str]]:
    """Lay out a folder for each row and seed, seeds in turn so that every row has one early.

    Args:
        rows: The rows.
        seeds: Trainings a row.
        out: The experiment's folder.
        prepared: What they train on.
        scale: How long.

    Returns:
        The runs, and a line for each row that cannot be trained on these data, by its name.
    """
    missing: dict[str, str] = {}
    runs = []
    for seed in range(seeds):
        for row in rows:
            if row.needs and find_table(prepared.data, Path(row.needs).stem) is None:
                missing[row.name] = f"{prepared.data}: holds no {row.needs}, which this row needs"
                continue
            folder = out / "runs" / row.name / f"seed-{seed}"
            tree = _tree(row, seed, folder, prepared, scale)
            write_config(folder / CONFIG, tree)
            job = {
                "data": str(prepared.data.resolve()),
                "cache": str(prepared.cache.resolve()),
                "split": scale.split,
                "resamples": scale.resamples,
                "device": tree["training"]["device"],
            }
            write_sealed(folder / JOB, job)
            runs.append(Run(row, seed, folder, int(tree["training"]["steps"])))
    return runs, missing


PLACES = {"data": ("manifest", "sentences", "cache"), "model": ("text",)}
"""Keys that say where something lies, not what is trained."""


def recipe_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved configuration without its places."""
    kept: dict[str, Any] = {}
    for name, section in configuration.items():
        if name != "out":
            hidden = (*PLACES.get(name, ()), *("labels", "true_probability"))
            kept[name] = {key: v for key, v in section.items() if key not in hidden}
    return kept


def check(run: Run) -> str | None:
    """Look whether a run can be started; a line that says why not, or None.

    The configuration is read before anything is trained, so that what is wrong with a row is
    known at once.
    """
    try:
        config = load_config(run.folder / CONFIG)
        metrics = read_json(run.folder / METRICS)
    except CxrTextError as error:
        return str(error)
    if metrics is None:
        return None
    # A key that a newer version knows has its default, which is what the older one did.
    found = first_difference(
        recipe_of(metrics["configuration"]),
        recipe_of(config.model_dump(mode="json")),
        shared=True,
    )
    if found is None:
        return None
    key, before, now = found
    return (
        f"{run.folder}: was trained with {key} {before!r}, not {now!r}; remove the folder to "
        "train it again"
    )


def is_done(run: Run) -> bool:
    """Whether a run is trained, and measured by this version."""
    metrics = read_json(run.folder / METRICS)
    known = metrics is not None and metrics.get("format") == FORMAT
    return known and (run.folder / RESAMPLED).is_file()


def unequal_budget(configurations: Sequence[Mapping[str, Any]]) -> str | None:
    """The first key in which runs differ that must be equal in all of them, or None.

    A row may differ in its objective, its similarity, its language loss and its seed.
    """

    def budget(configuration: Mapping[str, Any]) -> dict[str, Any]:
        kept = recipe_of(configuration)
        kept.pop("objective", None)
        kept["model"].pop("similarity", None)
        for key in ("seed", "mlm_weight"):
            kept["training"].pop(key, None)
        return kept

    for other in configurations[1:]:
        found = first_difference(budget(configurations[0]), budget(other), shared=True)
        if found is not None:
            return found[0]
    return None


def require_equal_budget(configurations: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a table whose rows were not trained alike.

    Raises:
        ConfigError: Naming the key.
    """
    key = unequal_budget(configurations)
    if key is not None:
        raise ConfigError(
            f"the rows were trained with different {key}; remove the folders of the runs that "
            "an older version trained"
        )
