"""From predictions to figures: no model, no image and no text is read here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from cxrtext.evaluation.probes.linear_probe import Probed, measure_probes
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.retrieval.boxes import BoxRanks, measure_box_retrieval
from cxrtext.evaluation.retrieval.sentences import SentenceRanks, measure_retrieval
from cxrtext.evaluation.rows import CLASSES, HEADS, OF_FINDING, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import FEW, Area, Measured


def measure(predictions: Predictions, **settings: Any) -> Evaluation:
    """Compute every figure from predictions.

    ``settings``: those of :class:`~cxrtext.evaluation.Settings` that are to be others than the
    predictions were made with.
    """
    return _computed(_described(predictions, settings))


@dataclass(frozen=True, slots=True)
class _Described:
    """What predictions say of themselves, read before anything is computed."""

    result: Evaluation
    predictions: Predictions
    settings: Settings
    left_out: Mapping[str, Sequence[str]]  # by part


def _described(predictions: Predictions, settings: Mapping[str, Any]) -> _Described:
    """An evaluation without figures; what a wrong description raises is raised here alone."""
    predictions = _completed(predictions)
    about = predictions.about
    fixed = sorted(set(settings) & set(MADE))
    if fixed:
        raise ConfigError(f"{', '.join(fixed)}: the predictions were made with it; make them again")
    how = replace(Settings.from_dict(about["settings"]), **settings)
    result = Evaluation(
        **{name: about[name] for name in ("checkpoint", "fingerprint", "data", "split")},
        images=index(about["images"]),
        patients=index(about["patients"]),
        settings=how.to_dict(),
        predictions=predictions,
    )
    left_out = {name: list(about["left_out"].get(name, ())) for name in KINDS}
    return _Described(result, predictions, how, left_out)


def _computed(given: _Described) -> Evaluation:
    result, parts = given.result, given.predictions.parts
    for name in KINDS:
        result.left_out.extend(given.left_out[name])
        if name in PARTS and name in parts:
            result.rows.update(PARTS[name][1](parts[name], given.settings))
        elif isinstance(part := parts.get(name), Classified):
            _classify(result, part, given.settings)
    result.warnings.extend(few_patients(result.rows.compared))
    if made := given.predictions.about.get("made"):
        result.warnings.append(made)
    _declare(result, given.settings.primary)
    return result


def _completed(predictions: Predictions) -> Predictions:
    """With what the predictions of another model need not say of themselves."""
    about: dict[str, Any] = {"fingerprint": "", "settings": {}, "prompts": {}, "left_out": {}}
    part = predictions.parts.get("classification")
    if isinstance(part, Classified) and not {"images", "patients"} <= set(predictions.about):
        own = np.flatnonzero(part.measured).tolist()
        about |= {"images": len(own), "patients": len({part.images.patients[at] for at in own})}
    about["labeled"] = isinstance(part, Classified) and part.labeled
    return replace(predictions, about=about | predictions.about)


def few_patients(compared: Mapping[str, Measured]) -> list[str]:
    """A line for each finding with fewer than 25 patients with it, or without."""
    lines = []
    for name, one in compared.items():
        if isinstance(one, Area) and name.startswith(OF_FINDING):
            lines += _few_line(name.removeprefix(OF_FINDING), one)
    return lines


def _few_line(finding: str, area: Area) -> list[str]:
    images, side = (area.positives, area.negatives), ("with", "without")
    rare = 0 if area.patients[0] <= area.patients[1] else 1
    if area.patients[rare] >= FEW:
        return []
    return [
        f"{finding}: {images[rare]} images of {area.patients[rare]} patients {side[rare]} it, "
        f"fewer than {FEW} patients: read its AUC of {area.value:.2f} with its interval"
    ]


CLASS_ACCURACY = "multi-class accuracy"
"""The primary measure of findings as classes, by the positive prompts as in GLoRIA."""


def _declare(result: Evaluation, primary: str) -> None:
    """Put the primary measure first."""
    compared = result.rows.compared
    row = result.rows.find(CLASSES, SCORES[0], "accuracy")
    if primary in compared:
        one = compared[primary]
        result.primary.update({"measure": primary, **estimate_of(one), "method": one.METHOD})
    elif primary == CLASS_ACCURACY and row is not None:
        found = {"value": row.value, "low": row.low, "high": row.high, "method": row.method}
        result.primary.update({"measure": primary, **found})
    elif compared:
        line = f"the primary measure, {primary}, was not measured; others are: "
        result.warnings.append(line + "; ".join(compared))


MADE = ("average", "boxes", "exclude_same_patient", "probe", "calibrate")
"""Settings that predictions are made with, and figures cannot change."""


def measure_file(path: Path, **settings: Any) -> Evaluation:
    """:func:`measure` of a file, ``predictions.parquet``."""
    return _measure_read(path, _read(path), settings)


def measure_files(paths: Iterable[Path], **settings: Any) -> Iterator[Evaluation]:
    """:func:`measure_file` of files that are to be compared, one at a time.

    Images and findings of each are taken in the order of the first, as their rows may stand in any.
    """
    first = Predictions({}, {})
    made: dict[str, Any] = {}
    for path in paths:
        found = _read(path)
        own = {**Settings().to_dict(), **found.about.get("settings", {})}
        for name in AGREEING:
            if name not in settings and made.setdefault(name, own[name]) != own[name]:
                raise ConfigError(
                    f"{path}: made with --{name} {own[name]} and not {made[name]} as the first; "
                    f"give --{name}, which is taken for all"
                )
        given, part = (one.parts.get("classification") for one in (first, found))
        if isinstance(given, Classified) and isinstance(part, Classified):
            found = replace(found, parts={**found.parts, "classification": part.ordered_as(given)})
        first = first if first.parts else found
        yield _measure_read(path, found, settings)


AGREEING = ("primary", "uncertain")
"""Settings of figures that files which are compared must share."""


def _read(path: Path) -> Predictions:
    return read_predictions(path, KINDS)


def _measure_read(path: Path, predictions: Predictions, settings: Mapping[str, Any]) -> Evaluation:
    replace(Settings(), **settings)  # what is wrong with these is no fault of the file
    try:
        described = _described(predictions, settings)
    except KeyError as error:
        raise DataError(f"{path}: its description lacks {error}; {AGAIN}") from None
    except (TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: its description is none of predictions: {error}; {AGAIN}"
        ) from None
    return _computed(described)


def _classify(result: Evaluation, given: Classified, settings: Settings) -> None:
    if not result.predictions or not result.predictions.about["labeled"]:
        return
    validated = not given.measured.all()
    if both := _in_both(given):
        result.warnings.append(
            f"{both} {'patients are' if both > 1 else 'patient is'} among the images measured and "
            "the validation images: thresholds and calibration, chosen on the latter, flatter"
        )
    if settings.calibrate and not validated:
        result.left_out.append(
            "thresholds and temperatures: they are chosen on validation images, of which there "
            "are none beside the images measured"
        )
    zero_shot = measure_zero_shot(given, settings)
    if validated:
        result.left_out.extend(
            f"thresholds and temperatures: {name}: validation images lack a class"
            for name, one in zero_shot.scores.items()
            if one.fit is None and len(one.rows)
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
    """How many patients have measured and validation images; a manifest with such is refused."""
    parts: tuple[set[str], set[str]] = set(), set()
    for patient, measured in zip(given.images.patients, given.measured.tolist(), strict=True):
        parts[measured].add(patient)
    return len(parts[0] & parts[1])


def _heads(given: Classified, settings: Settings) -> Rows:
    """Heads of findings, measured as their prompts are."""
    rows = measure_zero_shot(given, settings, HEADS).rows
    rows.compared = {f"{HEADS}: {name}": one for name, one in rows.compared.items()}
    return rows


PARTS: dict[str, tuple[type[Part], Callable[[Any, Settings], Rows]]] = {
    "heads": (Classified, _heads),
    "probe": (Probed, measure_probes),
    "phrases": (Phrases, lambda part, _: measure_phrases(part)),
    "box retrieval": (BoxRanks, lambda part, _: measure_box_retrieval(part)),
    "retrieval": (SentenceRanks, lambda part, _: measure_retrieval(part)),
}
"""By name of the part beside the classification its kind, and what is computed from it."""
KINDS: dict[str, type[Part]] = {
    "classification": Classified,
    **{name: kind for name, (kind, _) in PARTS.items()},
}
