"""What a run shows of what reporting guidelines ask for, and where it stands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.population import UNCERTAIN_NAMES, counted
from cxrtext.page import with_interval

ACQUIRED = ("manufacturer", "model", "modality", "spacing")
"""Columns of a manifest that say how an image was taken."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown and where, or "" and what the run would need to show it."""

    text: str
    needs: str = ""


def evidence_of(material: Material) -> Mapping[str, Shown]:
    """What a run shows, by name."""
    return {name: Shown(make(material), needs) for name, (make, needs) in EVIDENCE.items()}


def _data(material: Material) -> str:
    drawn = ", drawn by `cxrtext phantom` and not real" if material.drawn else ""
    return f"data set '{material.data_name}'{drawn} ({DIGESTS})" if material.population else ""


def _counts(material: Material) -> str:
    if material.population is None:
        return ""
    counts = material.population.counts(material.population.measured)
    return f"{counts.text()} measured (`table-1.md`)"


def _flow(material: Material) -> str:
    if material.flow is None:
        return ""
    since = (
        "" if material.imported else "; from the manifest on, as no import noted what came before"
    )
    return f"`flow.svg`, `flow.md`{since}"


def _subset(material: Material) -> str:
    split = material.result.split
    return "all images of the manifest" if split == "all" else f"split '{split}' (`flow.md`)"


def _split(material: Material) -> str:
    population = material.population
    if population is None or not population.whole:
        return ""
    parts = [f"{name} {int(population.of_split(name).sum()):,}" for name in population.split_names]
    how = ""
    if material.imported and material.imported.options.get("split"):
        how = "; drawn by patient at the import where the set has no split of its own"
    return f"images: {', '.join(parts)}{how} (`provenance.json`, `data.split_sha256`)"


def _disjoint(material: Material) -> str:
    if material.population is None:
        return ""
    return "no patient is in two splits: a manifest in which one is, is refused"


def _preprocessing(material: Material) -> str:
    if not material.model:
        return ""
    return f"{preprocessing_text(material.model['preprocessing'])} (`model-card.md`)"


def preprocessing_text(values: Mapping[str, Any]) -> str:
    """How an image is prepared, in words."""
    fit = values.get("fit", "crop")
    first = (
        f"both sides resized to {values['resize']} pixels"
        if fit == "stretch"
        else f"shorter side resized to {values['resize']} pixels"
    )
    return (
        f"{first}, center crop of {values['crop']}, gray values of 8 bits brought to mean "
        f"{values['mean']:g} and scale {values['std']:g}"
    )


def _missing(material: Material) -> str:
    if material.flow is None or not material.flow.labels:
        return ""
    missing = sum(numbers["missing"] for numbers in material.flow.labels.values())
    return (
        f"{counted(missing, 'label')} missing among those of the images measured; such images are "
        "left out of the finding, nothing is imputed (`flow.md`, `table-1.md`)"
    )


def _uncertain(material: Material) -> str:
    if material.flow is None or not material.flow.labels:
        return ""
    number = sum(numbers["uncertain"] for numbers in material.flow.labels.values())
    how = UNCERTAIN_NAMES[str(material.result.settings["uncertain"])]
    return f"{counted(number, 'uncertain label')}, {how} (`flow.md`)"


def _labels(material: Material) -> str:
    if not material.result.classification:
        return ""
    return (
        "labels of the data folder's table by study: 1 present, 0 absent, -1 uncertain, blank "
        f"unknown ({DIGESTS})"
    )


def _findings(material: Material) -> str:
    if material.flow is None or not material.flow.labels:
        return ""
    parts = [f"{name} {numbers['with']:,}" for name, numbers in material.flow.labels.items()]
    return f"images with: {', '.join(parts)} (`flow.md`)"


def _table(material: Material) -> str:
    if material.table_one is None:
        return ""
    columns = material.population.images.metadata if material.population else {}
    told = [name for name in ("age", "sex", "view", "site") if name in columns]
    return f"`table-1.md`: {', '.join([*told, 'findings, missing'])} by split"


def _acquisition(material: Material) -> str:
    columns = material.population.images.metadata if material.population else {}
    told = [name for name in ACQUIRED if any(columns.get(name, ()))]
    return f"columns {', '.join(told)} of the manifest (`table-1.md`)" if told else ""


def _hashed(material: Material) -> str:
    if material.imported is None or not material.imported.hashed:
        return ""
    return (
        "ids and file names were replaced by keyed hashes at the import; texts and pixels were not"
    )


def _architecture(material: Material) -> str:
    return "`model-card.md`, Model details; weights by fingerprint" if material.model else ""


def _software(_material: Material) -> str:
    return "`provenance.json`, `software` and `machine`"


def _training(material: Material) -> str:
    return (
        "`model-card.md`, Training data and training; whole in `provenance.json`"
        if material.training
        else ""
    )


def _initialization(material: Material) -> str:
    model = material.training.get("model", {})
    start = [
        f"{what} {model[name]}"
        for name, what in (
            ("init", "whole model from"),
            ("image_weights", "image encoder from"),
            ("text", "text encoder from"),
        )
        if model.get(name)
    ]
    if not material.training:
        return ""
    return f"{', '.join(start) or 'at random'} (`provenance.json`, `checkpoint.training`)"


def _selection(material: Material) -> str:
    best = material.training.get("training", {}).get("best")
    if not best or "best" not in material.checkpoint["name"]:
        return "the state after the last step" if material.training else ""
    return f"the state with the best {best} of validation images (`provenance.json`)"


def _single(_material: Material) -> str:
    return "one model, no ensemble"


def _measures(_material: Material) -> str:
    figures = "ROC, precision and recall, reliability, net benefit"
    return f"`../report.html`, Definitions, with {figures}; `../metrics.json`"


def _intervals(material: Material) -> str:
    if not any(one.intervals for one in material.result.classification.values()):
        return "" if not material.result.grounding.get("mean", {}).get("intervals") else INTERVALS
    return INTERVALS


INTERVALS = "95 % intervals beside each figure; methods: `../metrics.json`, `interval_methods`"


def _results(material: Material) -> str:
    result, parts = material.result, []
    primary = result.primary
    if primary.get("value") is not None:
        parts.append(f"declared primary measure: {primary['measure']}")
    if result.mean_auc is not None:
        ends = result.classification_intervals.get("mean_auc")
        parts.append(f"mean AUC {with_interval(result.mean_auc, ends)}")
    mean = result.grounding.get("mean", {})
    if mean.get("CNR") is not None:
        ends = mean.get("intervals", {}).get("CNR")
        parts.append(f"mean CNR {with_interval(mean['CNR'], ends, 2)}")
    return f"{'; '.join(parts)} (`../report.html`, `../tables/`)" if parts else ""


def _groups(material: Material) -> str:
    if not material.result.slices:
        return ""
    return f"AUC by {', '.join(material.result.slices)} with gaps (`../report.html`)"


def _clusters(material: Material) -> str:
    return "intervals count patients, not images" if _intervals(material) else ""


def _thresholds(material: Material) -> str:
    if not material.fitted:
        return ""
    return (
        "thresholds chosen on validation images, with sensitivity, specificity and predictive "
        "values (`../report.html`, Operating points)"
    )


def _counted(material: Material) -> str:
    if not material.result.operating:
        return ""
    return "counts of each finding at its thresholds (`../tables/operating-points-counts.csv`)"


def _calibration(material: Material) -> str:
    if not material.fitted:
        return ""
    return (
        "temperature and Platt's scale, fitted on validation images, with their errors, slope and "
        "intercept (`../report.html`); the model itself was not changed"
    )


def _grounding(material: Material) -> str:
    return "maps against boxes (`../report.html`, Grounding)" if material.result.grounding else ""


def _failures(material: Material) -> str:
    if not material.fitted and not material.result.grounding:
        return ""
    return (
        "errors by finding at the thresholds, and sentences with the worst maps (`../report.html`)"
    )


def _warnings(material: Material) -> str:
    lines = [*material.result.warnings, *material.result.left_out]
    return f"{counted(len(lines), 'note')} of the run (`../report.html`)" if lines else ""


def _power(material: Material) -> str:
    few = [line for line in material.result.warnings if "detect" in line]
    return f"{counted(len(few), 'warning')} about few images (`../report.html`)" if few else ""


def _provenance(_material: Material) -> str:
    return "`provenance.json`"


def _recompute(material: Material) -> str:
    if material.result.predictions is None:
        return ""
    return (
        "`../predictions.parquet` holds every score; `cxrtext evaluate --from` recomputes each "
        "figure from it without a model"
    )


def _prompts(material: Material) -> str:
    return "`provenance.json`, `prompts`" if material.prompts else ""


def _blind(_material: Material) -> str:
    return (
        "the model is given an image and the prompts; no label, report or other data of the patient"
    )


DIGESTS = "digests in `provenance.json`, `data`"
FOLDER = "measure with the data folder at hand"
LABELS = "a table of labels"
VALIDATION = "labeled images of split 'val' beside those measured"
CHECKPOINT = "the checkpoint's folder, unchanged"
EVIDENCE: Mapping[str, tuple[Callable[[Material], str], str]] = {
    "acquisition": (_acquisition, "columns such as manufacturer (`cxrtext import --keep`)"),
    "architecture": (_architecture, CHECKPOINT),
    "blind": (_blind, ""),
    "calibration": (_calibration, VALIDATION),
    "clusters": (_clusters, "`--resamples` above 0"),
    "counted": (_counted, VALIDATION),
    "counts": (_counts, FOLDER),
    "data": (_data, FOLDER),
    "disjoint": (_disjoint, FOLDER),
    "failures": (_failures, "labels or boxes"),
    "findings": (_findings, LABELS),
    "flow": (_flow, FOLDER),
    "grounding": (_grounding, "boxes"),
    "groups": (_groups, "labels, and columns such as sex and age"),
    "hashed": (_hashed, ""),
    "initialization": (_initialization, CHECKPOINT),
    "intervals": (_intervals, "`--resamples` above 0"),
    "labels": (_labels, LABELS),
    "measures": (_measures, ""),
    "missing": (_missing, LABELS),
    "power": (_power, ""),
    "preprocessing": (_preprocessing, CHECKPOINT),
    "prompts": (_prompts, ""),
    "provenance": (_provenance, ""),
    "recompute": (_recompute, ""),
    "results": (_results, "labels or boxes"),
    "selection": (_selection, CHECKPOINT),
    "single": (_single, ""),
    "software": (_software, ""),
    "split": (_split, FOLDER),
    "subset": (_subset, ""),
    "table": (_table, FOLDER),
    "thresholds": (_thresholds, VALIDATION),
    "training": (_training, CHECKPOINT),
    "uncertain": (_uncertain, LABELS),
    "warnings": (_warnings, ""),
}
"""By name what makes the text, and what a run needs that cannot show it ("": nothing is said)."""
