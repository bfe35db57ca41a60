"""From predictions to figures: no model, no image and no text is read here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.few import few_patients
from cxrtext.evaluation.classification.points import measure_classes, measure_operating
from cxrtext.evaluation.classification.subgroups import measure_slices
from cxrtext.evaluation.classification.zero_shot import measure_zero_shot
from cxrtext.evaluation.grounding.absence import AbsenceScores, measure_absence
from cxrtext.evaluation.grounding.masks import MaskValues, measure_masks
from cxrtext.evaluation.grounding.phrases import PhraseValues, measure_grounding
from cxrtext.evaluation.grounding.sides import SideScores, measure_sides
from cxrtext.evaluation.intervals.comparison import estimate_of
from cxrtext.evaluation.intervals.methods import SHARE, method_of
from cxrtext.evaluation.predictions.file import AGAIN, Part, Predictions, read_predictions
from cxrtext.evaluation.probes.linear_probe import Probed, measure_probes
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.retrieval.boxes import BoxRanks, measure_box_retrieval
from cxrtext.evaluation.retrieval.sentences import SentenceRanks, measure_retrieval
from cxrtext.evaluation.settings import Settings

Measure = Callable[[Evaluation, Any, Settings], None]


def measure(predictions: Predictions, **settings: Any) -> Evaluation:
    """Compute every figure from predictions.

    Args:
        predictions: Of :func:`~cxrtext.evaluation.evaluate`, or read from its file.
        settings: Those of :class:`~cxrtext.evaluation.Settings` that are to be others than the
            predictions were made with.

    Raises:
        ConfigError: One of them decides about the predictions themselves: how prompts are
            averaged, σ, the boxes.
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
    left_out = {name: list(about["left_out"].get(name, ())) for name in PARTS}
    return _Described(result, predictions, how, left_out)


def _computed(given: _Described) -> Evaluation:
    result = given.result
    for name, (_, compute) in PARTS.items():
        result.left_out.extend(given.left_out[name])
        if name in given.predictions.parts:
            compute(result, given.predictions.parts[name], given.settings)
    result.warnings.extend(few_patients(result.measured.compared))
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


CLASSES = "multi-class accuracy"
"""The primary measure of findings as classes, by the positive prompts as in GLoRIA."""


def _declare(result: Evaluation, primary: str) -> None:
    """Put the primary measure first."""
    compared = result.measured.compared
    if primary in compared:
        found = {"measure": primary, **estimate_of(compared[primary])}
        result.primary.update({**found, "method": method_of(primary)})
    elif primary == CLASSES and result.multiclass:
        share = result.multiclass["positive prompt"]["accuracy"]
        result.primary.update({"measure": primary, **share, "method": SHARE})
    elif compared:
        line = f"the primary measure, {primary}, was not measured; others are: "
        result.warnings.append(line + "; ".join(compared))


MADE = ("average", "boxes", "sigma", "exclude_same_patient", "probe", "calibrate")
"""Settings that predictions are made with, and figures cannot change."""


def measure_file(path: Path, **settings: Any) -> Evaluation:
    """:func:`measure` of a file, ``predictions.parquet``.

    Raises:
        DataError: The file is unreadable, or holds no predictions.
    """
    return _measure_read(path, _read(path), settings)


def measure_files(paths: Iterable[Path], **settings: Any) -> Iterator[Evaluation]:
    """:func:`measure_file` of files that are to be compared, one at a time.

    Images and findings of each are taken in the order of the first, as their rows may stand in any.

    Raises:
        ConfigError: They were made with different settings of which one has to be given: by another
            seed the same resamples would seem to be the same and are not.
    """
    first: Part | None = None
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
        part = found.parts.get("classification")
        if isinstance(first, Classified) and isinstance(part, Classified):
            parts = {**found.parts, "classification": part.ordered_as(first)}
            found = replace(found, parts=parts)
        first = first or part
        yield _measure_read(path, found, settings)


AGREEING = ("primary", "uncertain", "resamples", "seed")
"""Settings of figures that files which are compared must share."""


def _read(path: Path) -> Predictions:
    return read_predictions(path, {name: kind for name, (kind, _) in PARTS.items()})


def _measure_read(path: Path, predictions: Predictions, settings: Mapping[str, Any]) -> Evaluation:
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
    result.measured.zero_shot = zero_shot
    result.measured.compared |= zero_shot.compared
    result.classification.update(zero_shot.findings)
    result.classification_intervals.update(zero_shot.intervals)
    own = given.images.take(np.flatnonzero(given.measured))
    slices, lines = measure_slices(own, zero_shot.scores, settings)
    result.slices.update(slices)
    result.left_out.extend(lines)
    result.operating.update(measure_operating(given, zero_shot.scores, settings))
    classes, why = measure_classes(given, settings)
    result.multiclass.update(classes)
    result.left_out.extend([why] if why else [])


def _in_both(given: Classified) -> int:
    """How many patients have measured and validation images; a manifest with such is refused."""
    parts: tuple[set[str], set[str]] = set(), set()
    for patient, measured in zip(given.images.patients, given.measured.tolist(), strict=True):
        parts[measured].add(patient)
    return len(parts[0] & parts[1])


def _probe(result: Evaluation, given: Probed, settings: Settings) -> None:
    result.probe.update(measure_probes(given, settings))


def _ground(result: Evaluation, given: PhraseValues, settings: Settings) -> None:
    grounded = measure_grounding(given, settings)
    result.measured.grounded = grounded
    result.measured.compared |= grounded.resampled
    result.grounding.update(grounded.summary)


def _tell_sides(result: Evaluation, given: SideScores, _: Settings) -> None:
    result.sides.update(measure_sides(given))


def _map_masks(result: Evaluation, given: MaskValues, settings: Settings) -> None:
    result.masks.update(measure_masks(given, settings))


def _look_for(result: Evaluation, given: AbsenceScores, settings: Settings) -> None:
    result.absence.update(measure_absence(given, settings))


def _retrieve_boxes(result: Evaluation, given: BoxRanks, settings: Settings) -> None:
    boxes = measure_box_retrieval(given, settings)
    result.box_retrieval.update(boxes.summary)
    result.measured.compared |= boxes.resampled


def _retrieve(result: Evaluation, given: SentenceRanks, settings: Settings) -> None:
    retrieved = measure_retrieval(given, settings)
    result.measured.compared |= retrieved.resampled
    result.retrieval.update(retrieved.metrics)
    result.retrieval_intervals.update(retrieved.intervals)


PARTS: dict[str, tuple[type[Part], Measure]] = {
    "classification": (Classified, _classify),
    "probe": (Probed, _probe),
    "grounding": (PhraseValues, _ground),
    "sides": (SideScores, _tell_sides),
    "masks": (MaskValues, _map_masks),
    "absence": (AbsenceScores, _look_for),
    "box retrieval": (BoxRanks, _retrieve_boxes),
    "retrieval": (SentenceRanks, _retrieve),
}
"""By name of the part its kind, and what is computed from it, in this order."""
