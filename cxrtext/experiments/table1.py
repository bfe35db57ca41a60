"""SSD table 1 and figure 3: corrections for false negatives, trained with an equal budget."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxrtext.config import load_config, write_config
from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.data import find_table
from cxrtext.evaluation.rows import BOTH, BOX_RETRIEVAL, GROUNDING, MEAN_OF_SENTENCES, ZERO_SHOT
from cxrtext.experiments.experiment import (
    ExperimentListener,
    ExperimentOptions,
    Group,
    Measure,
    Trial,
    choose,
    claims_of,
)
from cxrtext.experiments.page import intervals_text
from cxrtext.experiments.papers.table1 import (
    BASELINE,
    BEYOND,
    BY_FINDING,
    CONFIG,
    LIVE,
    LOCKED,
    MEASURES,
    PAPER_TABLE,
    SCALES,
    PairTable,
    Scale,
)
from cxrtext.experiments.preparation import (
    Prepared,
    fingerprints,
    prepare,
    relative,
    sentences_with,
)
from cxrtext.experiments.processes import Failures, Finished, Plan, Run
from cxrtext.experiments.reading import read_claims
from cxrtext.experiments.stages import JOB, METRICS
from cxrtext.experiments.table import group_of, order_of, trainings_of
from cxrtext.files import sha256, write_sealed
from cxrtext.models.features import open_features
from cxrtext.models.features.folder import FEATURES
from cxrtext.page import Block, Bullets, Text

PLACES = {"data": ("manifest", "sentences", "cache", "features"), "model": ("text", "init")}
"""Keys that say where something lies, not what is trained."""


class Table1:
    def __init__(self, options: ExperimentOptions, about: PairTable = PAPER_TABLE) -> None:
        if options.scale not in SCALES:
            raise ConfigError(f"--scale {options.scale}: is not one of {', '.join(SCALES)}")
        self.options, self.about = options, about
        self.scale = SCALES[options.scale]
        known, usual = about.trials(self.scale)
        self.rows = choose(known, options.rows) if options.rows is not None else usual

    @property
    def seeds(self) -> int:
        return self.options.seeds or self.scale.seeds

    def identity(self) -> dict[str, Any]:
        given, features = self.options.data, self.options.features
        if features is not None and (not self.scale.columns or LIVE in self.scale.columns):
            raise ConfigError(f"--features: at --scale {self.options.scale} no row takes them")
        if given is None and not self.scale.studies:
            raise ConfigError(
                f"--scale {self.options.scale}: wants real data; give a data folder with --data"
            )
        data = None if given is None else fingerprints(given)
        found = {"experiment": self.about.name, "scale": asdict(self.scale), "data": data}
        if features is not None:
            found["features"] = sha256(open_features(features).folder / FEATURES)
        return found

    def plan(self, out: Path, listener: ExperimentListener) -> Plan:
        etas = dict.fromkeys(row.eta for row in self.rows if row.eta is not None)
        prepared = prepare(
            out, self.options.data, self.scale, listener, etas, self.options.features
        )
        runs, missing = plan(self.rows, self.seeds, out, prepared, self.scale)
        return Plan(runs, missing, prepared.stages)

    def recipes(self, run: Run, metrics: Mapping[str, Any] | None) -> tuple[Any, Any]:
        wanted = recipe_of(load_config(run.folder / CONFIG).model_dump(mode="json"))
        return metrics and recipe_of(metrics["configuration"]), wanted

    def source(self) -> dict[str, Any]:
        data = self.options.data
        drawn = f"{self.scale.studies} drawn studies of {self.scale.size} px"
        return {
            "experiment": self.about.name,
            "question": self.about.question,
            "scale": self.options.scale,
            "source": drawn if data is None else f"the data folder '{data.resolve().name}'",
        }

    def table(self, finished: Sequence[Finished], failed: Failures) -> dict[str, Any]:
        """Lay the table out: ``sample``, ``groups`` (its columns), ``reading`` and ``order``."""
        column_of = {row.name: row.column for row in self.rows}
        by_column: dict[str, list[Finished]] = defaultdict(list)
        for one in finished:
            by_column[column_of[one.run.row]].append(one)
        first = finished[0]
        if not first.measures:
            raise DataError(
                f"{first.run.folder / METRICS}: nothing could be measured "
                f"({'; '.join(first.metrics['evaluation']['left_out'])}); give data with a "
                "labels.csv or a boxes.json"
            )
        trainings = trainings_of(finished, self.scale.starts)
        claims = (*claims_of(self.rows, [Measure("AUC")]), *self.about.claims)
        groups = []
        for column in dict.fromkeys(column_of.values()):
            rows = [row for row in self.rows if row.column == column]
            groups.append(_group(column, rows, by_column[column], failed, self.scale.starts))
        return {
            "sample": _sample(first),
            "groups": groups,
            "reading": read_claims(trainings, list(by_column)),
            "order": order_of(claims, trainings, MEASURES),
            "different": list(self.about.different),
            "starts": self.scale.starts,
        }

    def page(self, table: Mapping[str, Any]) -> tuple[str, list[Block]]:
        sample = table["sample"]
        found: list[Block] = [
            Text(
                f"Scale '{table['scale']}', on {table['source']}. Measured on {sample['images']} "
                f"images of {sample['patients']} patients, split '{sample['split']}'. AUC and "
                "ACC: means over the CheX5 findings, with the prompts of the paper, one a side. "
                f"CNR and mIoU: means over {sample['sentences']} sentences with boxes. Recall "
                f"(mean of R@10, R@50 and R@100) and MedR (better when smaller): {sample['boxes']} "
                "boxes and their sentences, means of both directions. "
                f"{table['seeds']} seed(s). {table['machine']}; "
                f"{table['versions']}."
            ),
            intervals_text(table, "patient"),
        ]
        if sample["left_out"]:
            found += [Text("Left out:"), Bullets(sample["left_out"])]
        return self.about.heading, found


def _tree(row: Trial, seed: int, folder: Path, prepared: Prepared, scale: Scale) -> dict[str, Any]:
    """The configuration of a run; paths are relative to its folder, so that it can be moved."""
    tree = prepared.tree(scale, folder)
    for name, section in row.settings.items():
        tree.setdefault(name, {}).update(section)
    if row.column:
        tree["training"].update(scale.columns[row.column])
        if "text" in tree["training"].get("lock", ()):
            tree["training"].pop("mlm_weight", None)  # it would train what is locked
    if prepared.starts:
        tree["model"]["init"] = relative(prepared.starts[seed % len(prepared.starts)], folder)
    if row.eta is not None:
        tree["data"]["sentences"] = relative(sentences_with(prepared.sentences, row.eta), folder)
    objective = tree.get("objective", {})
    if "keep" in objective:
        objective["keep"] = max(1, int(objective["keep"] * tree["training"]["batch"]))
    # In the paper labels come from reports; phantoms have those beside what is truly shown.
    for key, owner, stem in (
        ("true_probability", "dcl-eta-true", "truth"),
        ("labels", "remove-by-labels", "labels_from_reports"),
    ):
        table = find_table(prepared.data, stem)
        if objective.get("name") == owner and table is not None:
            objective[key] = str(table.resolve())
    tree["training"]["seed"] = seed
    return tree


def plan(
    rows: Sequence[Trial], seeds: int, out: Path, prepared: Prepared, scale: Scale
) -> tuple[list[Run], dict[str, str]]:
    """Lay out a folder a row and seed; and a line for each row that these data cannot train."""
    data = prepared.data
    missing = {
        row.name: f"{data}: holds no {row.needs}, which this row needs"
        for row in rows
        if row.needs
        and not (data / row.needs).is_file()
        and find_table(data, Path(row.needs).stem) is None
    }
    runs = []
    for seed in range(seeds):
        for row in (row for row in rows if row.name not in missing):
            folder = out / "runs" / row.name / f"seed-{seed}"
            tree = _tree(row, seed, folder, prepared, scale)
            write_config(folder / CONFIG, tree)
            job = {
                "data": str(data.resolve()),
                "cache": str(prepared.cache.resolve()),
                "features": str(prepared.features.resolve()) if prepared.features else None,
                "split": scale.split,
                "device": tree["training"]["device"],
            }
            write_sealed(folder / JOB, job)
            runs.append(Run(row.name, seed, folder, int(tree["training"]["steps"])))
    return runs, missing


def recipe_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved configuration without its places."""
    kept: dict[str, Any] = {}
    for name, section in configuration.items():
        if name != "out":
            hidden = (*PLACES.get(name, ()), "labels", "true_probability")
            kept[name] = {key: v for key, v in section.items() if key not in hidden}
    return kept


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
        "findings": counts,
        "sentences": values.get((GROUNDING, MEAN_OF_SENTENCES, "sentences"), 0),
        "boxes": pairs,
        "left_out": left_out,
    }


COLUMNS = {
    "": "Ours beside the paper's",
    LOCKED: "Both encoders locked: heads, query and γ learn",
    LIVE: "Live: everything learns",
}
START = (
    "Rows go on from a common start, an InfoNCE run on an image encoder of the words of findings. "
)


def _group(
    column: str,
    rows: Sequence[Trial],
    finished: Sequence[Finished],
    failures: Failures,
    starts: int,
) -> dict[str, Any]:
    """The rows of a column, each less LSE+NL of the same column."""
    measured = {name for one in finished for name in one.measures}
    further = [one for one in (*BEYOND.values(), *BY_FINDING) if one.name in measured]
    baseline = f"{LIVE}-{BASELINE}" if column == LIVE else BASELINE
    measures = (*MEASURES.values(), *further)
    group = Group(column or "table1", COLUMNS[column], "", "", measures, baseline, tuple(rows))
    about = "No row of this table was finished."
    if finished:
        how = finished[0].metrics["configuration"]["training"]
        about = (
            f"{START if column else ''}{how['steps']} steps of {how['batch']} images and "
            f"{how['sentences']} sentences each, learning rate {how['lr']:g}."
        )
    found = group_of(group, rows, finished, failures, _recipe, starts)
    return {**found, "about": about, "beside_paper": False}


def _recipe(one: Finished) -> dict[str, Any]:
    return {"configuration": recipe_of(one.metrics["configuration"])}
