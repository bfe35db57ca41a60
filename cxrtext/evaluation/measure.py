"""From predictions to figures: no model, no image and no text is read here."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.multiclass import SCORES, measure_classes
from cxrtext.evaluation.classification.operating import measure_operating
from cxrtext.evaluation.classification.subgroups import measure_slices
from cxrtext.evaluation.classification.zero_shot import measure_zero_shot
from cxrtext.evaluation.comparison import estimate_of
from cxrtext.evaluation.grounding.phrases import Phrases, measure_phrases
from cxrtext.evaluation.predictions.file import AGAIN, Part, Predictions, read_predictions
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.retrieval.boxes import measure_box_retrieval
from cxrtext.evaluation.retrieval.sentences import Ranked, measure_retrieval
from cxrtext.evaluation.rows import CLASSES, HEADS, OF_FINDING, PROBES, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import FEW, Area, Measured, area_of


def measure(predictions: Predictions, **settings: Any) -> Evaluation:
    """Compute every figure from predictions.

    ``settings`` override the :class:`~cxrtext.evaluation.Settings` that the predictions were made
    with.
    """
    return _computed(*_described(predictions, settings))


def _described(
    predictions: Predictions, settings: Mapping[str, Any]
) -> tuple[Evaluation, Settings]:
    """An evaluation without figures; only this step raises what a wrong description raises."""
    about: dict[str, Any] = {
        "fingerprint": "", "settings": {}, "prompts": {}, "left_out": {}, "probes": {}
    }  # fmt: skip
    part = predictions.parts.get("classification")
    about["labeled"] = isinstance(part, Classified) and part.labeled
    if isinstance(part, Classified):  # predictions of other models need not state these
        own = np.flatnonzero(part.measured).tolist()
        about |= {"images": len(own), "patients": len({part.images.patients[at] for at in own})}
    about |= predictions.about
    about["left_out"] = {name: list(about["left_out"].get(name, ())) for name in KINDS}
    if fixed := sorted(set(settings) & set(MADE)):
        raise ConfigError(f"{', '.join(fixed)}: the predictions were made with it; make them again")
    how = replace(Settings.from_dict(about["settings"]), **settings)
    result = Evaluation(
        **{name: about[name] for name in ("checkpoint", "fingerprint", "data", "split")},
        images=index(about["images"]),
        patients=index(about["patients"]),
        settings=how.to_dict(),
        predictions=replace(predictions, about=about),
    )
    return result, how


def _computed(result: Evaluation, settings: Settings) -> Evaluation:
    about, parts = result.predictions.about, result.predictions.parts
    for name in KINDS:
        result.left_out.extend(about["left_out"][name])
        if name in PARTS and name in parts:
            result.rows.update(PARTS[name][1](parts[name], settings, about))
        elif isinstance(part := parts.get(name), Classified):
            _classify(result, part, settings)
    result.warnings.extend(few_patients(result.rows.compared))
    if made := about.get("made"):
        result.warnings.append(made)
    _declare(result, settings.primary)
    return result


def few_patients(compared: Mapping[str, Measured]) -> list[str]:
    """A line for each finding with fewer than 25 patients with it, or without."""
    lines = []
    for name, area in compared.items():
        if not isinstance(area, Area) or not name.startswith(OF_FINDING):
            continue
        rare = 0 if area.patients[0] <= area.patients[1] else 1
        images, side = (area.positives, area.negatives)[rare], ("with", "without")[rare]
        if area.patients[rare] < FEW:
            lines.append(
                f"{name.removeprefix(OF_FINDING)}: {images} images of {area.patients[rare]} "
                f"patients {side} it, fewer than {FEW} patients: read its AUC of {area.value:.2f} "
                "with its interval"
            )
    return lines


CLASS_ACCURACY = "multi-class accuracy"
"""The primary measure of findings as classes, from the positive prompts as in GLoRIA."""


def _declare(result: Evaluation, primary: str) -> None:
    """Put the primary measure first."""
    compared = result.rows.compared
    row = result.rows.find(CLASSES, SCORES[0], "accuracy")
    if primary in compared:
        figure = compared[primary]
        result.primary.update({"measure": primary, **estimate_of(figure), "method": figure.METHOD})
    elif primary == CLASS_ACCURACY and row is not None:
        estimate = {"value": row.value, "low": row.low, "high": row.high, "method": row.method}
        result.primary.update({"measure": primary, **estimate})
    elif compared:
        line = f"the primary measure, {primary}, was not measured; others are: "
        result.warnings.append(line + "; ".join(compared))


MADE = ("boxes", "probe", "calibrate")
"""Settings fixed when predictions are made."""


def measure_file(path: Path, **settings: Any) -> Evaluation:
    """:func:`measure` of a file, ``predictions.parquet``."""
    return _measure_read(path, read_predictions(path, KINDS), settings)


def measure_files(paths: Iterable[Path], **settings: Any) -> Iterator[Evaluation]:
    """:func:`measure_file` of files to be compared, one at a time.

    Their rows may be in any order; images and findings get the order of the first file.
    """
    first = Predictions({}, {})
    made: dict[str, Any] = {}
    for path in paths:
        predictions = read_predictions(path, KINDS)
        own = {**Settings().to_dict(), **predictions.about.get("settings", {})}
        for name in AGREEING:
            if name not in settings and made.setdefault(name, own[name]) != own[name]:
                raise ConfigError(
                    f"{path}: made with --{name} {own[name]} and not {made[name]} as the first; "
                    f"give --{name}, which then holds for all"
                )
        given, part = (each.parts.get("classification") for each in (first, predictions))
        if isinstance(given, Classified) and isinstance(part, Classified):
            parts = {**predictions.parts, "classification": part.ordered_as(given)}
            predictions = replace(predictions, parts=parts)
        first = first if first.parts else predictions
        yield _measure_read(path, predictions, settings)


AGREEING = ("primary", "uncertain")
"""Settings of figures that compared files must share."""


def _measure_read(path: Path, predictions: Predictions, settings: Mapping[str, Any]) -> Evaluation:
    replace(Settings(), **settings)  # wrong settings are no fault of the file
    try:
        described = _described(predictions, settings)
    except KeyError as error:
        raise DataError(f"{path}: its description has no {error}; {AGAIN}") from None
    except (TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: its description is not that of predictions: {error}; {AGAIN}"
        ) from None
    return _computed(*described)


def _classify(result: Evaluation, given: Classified, settings: Settings) -> None:
    if not result.predictions.about["labeled"]:
        return
    validated = not given.measured.all()
    if both := _in_both(given):
        result.warnings.append(
            f"{both} {'patients are' if both > 1 else 'patient is'} among the images measured and "
            "the validation images: thresholds and calibration, chosen on the latter, flatter"
        )
    if settings.calibrate and not validated:
        result.left_out.append(
            "thresholds and temperatures: they are chosen on validation images, and there are "
            "none besides the images measured"
        )
    zero_shot = measure_zero_shot(given, settings)
    if validated:
        result.left_out.extend(
            f"thresholds and temperatures: {name}: validation images lack a class"
            for name, scores in zero_shot.scores.items()
            if scores.fit is None and len(scores.rows)
        )
    result.scores.update(zero_shot.scores)
    own = given.images.take(np.flatnonzero(given.measured))
    slices, lines = measure_slices(own, zero_shot.scores, settings)
    classes, why = measure_classes(given, settings)
    operating = measure_operating(given, zero_shot.scores, settings)
    for rows in (zero_shot.rows, operating, classes, slices):
        result.rows.update(rows)
    result.left_out.extend([*lines, *([why] if why else [])])


def _in_both(given: Classified) -> int:
    """How many patients have both measured and validation images; a manifest may have none."""
    people = np.array(given.images.patients, dtype=object)
    return len({*people[given.measured]} & {*people[~given.measured]})


def _heads(given: Classified, settings: Settings, _: Mapping[str, Any]) -> Rows:
    """Heads of findings, measured like their prompts."""
    rows = measure_zero_shot(given, settings, HEADS).rows
    rows.compared = {f"{HEADS}: {name}": figure for name, figure in rows.compared.items()}
    return rows


def _probes(given: Classified, settings: Settings, about: Mapping[str, Any]) -> Rows:
    """AUC by finding, with the ridge and the number of images it was fitted to."""
    rows = Rows()
    for number, finding in enumerate(given.findings):
        at, truth = given.rows(number, settings.uncertain)
        patients = [given.images.patients[row] for row in at]
        area = area_of(given.scores[number][at], truth, patients)
        rows.add(PROBES, finding, "AUC", area, len(at))
        for name, value in about["probes"].get(finding, {}).items():
            rows.add(PROBES, finding, name, value)
    return rows


PARTS: dict[str, tuple[type[Part], Callable[[Any, Settings, Mapping[str, Any]], Rows]]] = {
    "heads": (Classified, _heads),
    "probe": (Classified, _probes),
    "phrases": (Phrases, lambda part, *_: measure_phrases(part)),
    "box retrieval": (Ranked, lambda part, *_: measure_box_retrieval(part)),
    "retrieval": (Ranked, lambda part, *_: measure_retrieval(part)),
}
"""The parts besides the classification by name, each with its kind and what measures it."""
KINDS: dict[str, type[Part]] = {
    "classification": Classified,
    **{name: kind for name, (kind, _) in PARTS.items()},
}
