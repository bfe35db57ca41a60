"""SSD table 1: every correction for false negatives, trained with an equal budget."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxrtext.config import first_difference, load_config, write_config
from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.data import find_table
from cxrtext.evaluation.intervals.comparison import OF_FINDING, estimate_of
from cxrtext.evaluation.rows import BOTH, BOX_RETRIEVAL, GROUNDING, MEAN_OF_SENTENCES, ZERO_SHOT
from cxrtext.experiments.comparison import Trainings, compare_rows, order_of
from cxrtext.experiments.experiment import (
    ExperimentListener,
    ExperimentOptions,
    Measure,
    Trial,
    choose,
    claims_of,
)
from cxrtext.experiments.measures import JOB, METRICS, mean_of_seeds
from cxrtext.experiments.page import table1_head, table1_sections
from cxrtext.experiments.papers.table1 import (
    ALL_MEASURES,
    BASELINE,
    CONFIG,
    MEASURES,
    SCALES,
    TABLE1,
    Scale,
    baseline_of,
    trials_of,
)
from cxrtext.experiments.preparation import (
    Prepared,
    fingerprints,
    language_model_from,
    prepare,
    relative,
)
from cxrtext.experiments.processes import Failures, Finished, Page, Plan, Run
from cxrtext.experiments.reading import read_claims
from cxrtext.files import write_sealed

PLACES = {"data": ("manifest", "sentences", "cache"), "model": ("text", "init")}
"""Keys that say where something lies, not what is trained."""


class Table1:
    """Table 1 as the runner wants it."""

    name = "table1"

    def __init__(self, options: ExperimentOptions) -> None:
        if options.scale not in SCALES:
            raise ConfigError(f"--scale {options.scale}: is not one of {', '.join(SCALES)}")
        self.options = options
        self.scale = SCALES[options.scale]
        known, usual = trials_of(self.scale)
        self.rows = choose(known, options.rows) if options.rows is not None else usual

    @property
    def seeds(self) -> int:
        """Trainings a row."""
        return self.options.seeds or self.scale.seeds

    def identity(self) -> dict[str, Any]:
        """The scale, and the tables of the data that were given."""
        given = self.options.data
        if given is None and not self.scale.studies:
            raise ConfigError(
                f"--scale {self.options.scale}: wants real data; give a data folder with --data"
            )
        data = None if given is None else fingerprints(given)
        return {"experiment": self.name, "scale": asdict(self.scale), "data": data}

    def plan(self, out: Path, listener: ExperimentListener) -> Plan:
        """Prepare the data, and write each run's configuration."""
        prepared = prepare(out, self.options.data, self.scale, listener)
        runs, missing = plan(self.rows, self.seeds, out, prepared, self.scale)
        return Plan(runs, missing, prepared.stages)

    def recipes(self, run: Run, metrics: Mapping[str, Any] | None) -> tuple[Any, Any]:
        """Resolved configurations without their places."""
        wanted = recipe_of(load_config(run.folder / CONFIG).model_dump(mode="json"))
        return metrics and recipe_of(metrics["configuration"]), wanted

    def source(self) -> dict[str, Any]:
        """The scale, and which data."""
        data = self.options.data
        source = f"{self.scale.studies} drawn studies of {self.scale.size} px"
        if data is not None:
            source = f"the data folder '{data.resolve().name}'"
        return {"experiment": self.name, "scale": self.options.scale, "source": source}

    def table(self, finished: Sequence[Finished], failed: Failures) -> dict[str, Any]:
        """See :func:`build_table`."""
        return build_table(self.rows, finished, failed)

    def page(self, table: dict[str, Any], out: Path) -> Page:  # noqa: ARG002
        """There are no figures."""
        heading = "Table 1: correcting for false negatives"
        return Page(heading, table1_head(table), table1_sections(table))


def _tree(row: Trial, seed: int, folder: Path, prepared: Prepared, scale: Scale) -> dict[str, Any]:
    """The configuration of a run; paths are relative to its folder, so that it can be moved."""
    tree: dict[str, Any] = {name: dict(section) for name, section in scale.config.items()}
    for name, section in row.settings.items():
        tree.setdefault(name, {}).update(section)
    if row.column:
        tree["training"].update(scale.columns[row.column])
        if "text" in tree["training"].get("lock", ()):
            tree["training"].pop("mlm_weight", None)  # it would train what is locked
    if prepared.start is not None:
        tree["model"]["init"] = relative(prepared.start, folder)
    tree["data"].update(
        manifest=relative(prepared.manifest, folder),
        sentences=relative(prepared.sentences, folder),
        cache=relative(prepared.cache, folder),
    )
    tree["model"]["text"] = language_model_from(prepared, folder)
    objective = tree.get("objective", {}).get("name")
    if objective == "resample-by-text":
        # Half of the batch, at every scale; a number as large as the batch would resample nothing.
        tree["objective"]["keep"] = max(1, int(tree["training"]["batch"]) // 2)
    # In the paper labels come from reports; phantoms have those beside what is truly shown.
    for key, owner, stem in (
        ("true_probability", "dcl-eta-true", "truth"),
        ("labels", "remove-by-labels", "labels_from_reports"),
    ):
        table = find_table(prepared.data, stem)
        if objective == owner and table is not None:
            tree["objective"][key] = str(table.resolve())
    tree["training"]["seed"] = seed
    tree["out"] = "train"
    return tree


def _has(data: Path, needed: str) -> bool:
    return (data / needed).is_file() or find_table(data, Path(needed).stem) is not None


def plan(
    rows: Sequence[Trial], seeds: int, out: Path, prepared: Prepared, scale: Scale
) -> tuple[list[Run], dict[str, str]]:
    """Lay out a folder for each row and seed.

    Returns also a line for each row that cannot be trained on these data, by its name.
    """
    missing: dict[str, str] = {}
    runs = []
    for seed in range(seeds):
        for row in rows:
            if row.needs and not _has(prepared.data, row.needs):
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
            steps = int(tree["training"]["steps"])
            runs.append(Run(row.name, seed, folder, steps))
    return runs, missing


def recipe_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved configuration without its places."""
    kept: dict[str, Any] = {}
    for name, section in configuration.items():
        if name != "out":
            hidden = (*PLACES.get(name, ()), *("labels", "true_probability"))
            kept[name] = {key: v for key, v in section.items() if key not in hidden}
    return kept


def unequal_budget(configurations: Sequence[Mapping[str, Any]]) -> str | None:
    """The first key in which runs differ that must be equal in all of them, or None.

    A row may differ in its objective, its similarity, its language loss and its seed; rows of
    different columns are not compared.
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


def _run(one: Finished) -> dict[str, Any]:
    record = one.record(ALL_MEASURES, "training_images", "configuration")
    return {**record, "configuration": recipe_of(record["configuration"])}


def _row(
    row: Trial,
    finished: Sequence[Finished],
    trainings: Mapping[str, Trainings],
    failed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    mean = mean_of_seeds([one.measures for one in finished]) if finished else {}
    (base,) = (one for one in TABLE1 if one.name == BASELINE)
    beside = baseline_of(row)
    own, other = trainings.get(row.name), trainings.get(beside)
    return {
        "name": row.name,
        "title": row.title,
        "column": row.column,
        "measures": {name: estimate_of(mean[name]) for name in ALL_MEASURES if name in mean},
        "paper": dict(row.paper),
        "auc_by_finding": {
            name.removeprefix(OF_FINDING): estimate_of(one)
            for name, one in mean.items()
            if name.startswith(OF_FINDING)
        },
        "paper_auc_by_finding": dict(row.paper_auc),
        "difference": (
            {} if row.name == beside else compare_rows(own, other, ALL_MEASURES.values())
        ),
        "paper_difference": {
            name: round(value - base.paper[name], 3) for name, value in row.paper.items()
        },
        "runs": [_run(one) for one in finished],
        "failed": list(failed),
    }


def _budget(first: Finished) -> dict[str, Any]:
    training = first.metrics["configuration"]["training"]
    return {key: training[key] for key in ("steps", "batch", "sentences", "lr")}


def _sample(first: Finished) -> dict[str, Any]:
    found = first.metrics["evaluation"]
    values = {(one["part"], one["group"], one["measure"]): one["value"] for one in found["results"]}
    counts = {
        group: {"with": value, "without": values[part, group, "without"]}
        for (part, group, measure), value in values.items()
        if (part, measure) == (ZERO_SHOT, "with")
    }
    rare = [name for name, one in counts.items() if not (one["with"] and one["without"])]
    left_out = list(found["left_out"])
    if rare:
        left_out.append(f"AUC: no images with or none without {', '.join(rare)}")
    pairs = values.get((BOX_RETRIEVAL, BOTH, "pairs"), 0)
    if pairs and "Recall" not in first.measures:
        left_out.append(f"Recall: {pairs} boxes are too few for its cut-offs")
    return {
        "images": found["images"],
        "patients": found["patients"],
        "split": found["split"],
        "resamples": found["settings"]["resamples"],
        "findings": counts,
        "sentences": values.get((GROUNDING, MEAN_OF_SENTENCES, "sentences"), 0),
        "boxes": pairs,
        "left_out": left_out,
    }


def build_table(
    rows: Sequence[Trial], finished: Sequence[Finished], failures: Failures
) -> dict[str, Any]:
    """Lay the table out: ``sample``, ``budget``, ``rows``, ``reading`` and ``order``.

    Raises:
        ConfigError: The rows were not trained alike.
        DataError: The data have nothing that a row could be measured by.
    """
    column_of = {row.name: row.column for row in rows}
    by_column: dict[str, list[Finished]] = defaultdict(list)
    for one in finished:
        by_column[column_of[one.run.row]].append(one)
    for some in by_column.values():
        key = unequal_budget([one.metrics["configuration"] for one in some])
        if key is None:
            continue
        raise ConfigError(
            f"the rows were trained with different {key}; remove the folders of the runs that "
            "an older version trained"
        )
    first = finished[0]
    if not first.measures:
        raise DataError(
            f"{first.run.folder / METRICS}: nothing could be measured "
            f"({'; '.join(first.metrics['evaluation']['left_out'])}); give data with a labels.csv "
            "or a boxes.json"
        )
    by_row = {row.name: [one for one in finished if one.run.row == row.name] for row in rows}
    trainings = {
        name: {one.run.seed: one.measures for one in own} for name, own in by_row.items() if own
    }
    order = order_of(claims_of(rows, [Measure("AUC")]), trainings, MEASURES)
    return {
        "sample": _sample(first),
        "budget": {name: _budget(some[0]) for name, some in by_column.items()},
        "rows": [
            _row(row, by_row[row.name], trainings, failures.get(row.name, ())) for row in rows
        ],
        "reading": read_claims(trainings, list(by_column)),
        "order": order and {"measure": "AUC", **order},
    }
