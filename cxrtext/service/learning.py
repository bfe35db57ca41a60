"""``cxrtext learn``: a head trained on marks, kept where marks held out gain by it."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cxrtext.errors import DataError
from cxrtext.evaluation import Prompts
from cxrtext.evaluation.classification.calibration import KeptCalibration
from cxrtext.evaluation.classification.head import (
    CHANCE,
    LEAST,
    Archived,
    FindingHead,
    KeptHead,
    fit_head,
    gain_of,
    held_out_gains,
    shuffled,
)
from cxrtext.evaluation.metrics import Floats
from cxrtext.index import Archive
from cxrtext.index.features.scoring import mean_region
from cxrtext.index.labels import Labeler
from cxrtext.index.store.vectors import rows_of
from cxrtext.models.regions import unpack
from cxrtext.records.marks import Mark
from cxrtext.service.marking import Truth, truths_of

SAMPLE = 2000
"""Films of the archive, at most, whose scores and means say how marks are scaled."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What marks gave: a head where they gained, and in a line what became of them."""

    head: KeptHead | None
    said: str
    marks: int  # that say of a finding whether it is there
    # in nats a mark held out, and the share of shufflings of the verdicts that gain as much
    gain: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Scores [F, n] without a head, and unit means [n, D], of n images by their ids."""

    places: Mapping[str, int]
    scores: Floats
    means: Floats


def learn(archive: Archive, prompts: Mapping[str, Prompts], marks: Sequence[Mark]) -> Learned:
    """Train a head on marks of an archive's films; nothing is written.

    It is kept where marks held out by patient gain, and at most one in twenty shufflings of the
    verdicts as much, with the findings that gain.  Of each finding two marks at least of each kind
    are wanted.
    """
    told = [one for one in truths_of(marks, prompts) if one.value != -1]
    count = len(told)
    if count < LEAST:
        return Learned(None, f"{count} marks of findings, {LEAST} wanted at least", count)
    seen = see(archive, prompts, {one.image for one in told})
    told = [one for one in told if one.image in seen.places]
    trained = _train(list(prompts), seen, told)
    if not trained:
        return Learned(None, "no finding has two marks of each kind, there and absent", count)
    gain = gain_of(np.concatenate([gains for _, gains in trained.values()], axis=1))
    if gain[0] <= 0 or gain[1] > CHANCE:
        return Learned(None, f"{count} marks do not tell enough, more are wanted", count, gain)
    findings = {name: head for name, (head, own) in trained.items() if own[0].mean() > 0}
    kept = KeptHead(
        fingerprint=archive.model.fingerprint,
        data=archive.parts[0].folder.name,
        marks=count,
        gain=gain,
        prompts={name: prompts[name] for name in findings},
        findings=findings,
    )
    return Learned(kept, f"{', '.join(findings)}: trained on {count} marks", count, gain)


def _train(
    names: Sequence[str], seen: Seen, told: Sequence[Truth]
) -> dict[str, tuple[FindingHead, Floats]]:
    """By finding its head, and the gains of its marks held out [P, n], shuffled below the first."""
    found = {}
    for number, name in enumerate(names):
        some = [one for one in told if one.finding == name]
        truth = np.array([one.value for one in some], dtype=np.float64)
        if min(truth.sum(), len(truth) - truth.sum()) < 2:
            continue
        rows = [seen.places[one.image] for one in some]
        among = Archived.of(seen.scores[number], seen.means)
        z, means, patients = (
            seen.scores[number, rows],
            seen.means[rows],
            [t.patient_id for t in some],
        )
        gains = held_out_gains(z, means, shuffled(truth, number), patients, among)
        found[name] = fit_head(z, means, truth, among), gains
    return found


@torch.inference_mode()
def see(archive: Archive, prompts: Mapping[str, Prompts], wanted: set[str]) -> Seen:
    """Scores and means of some images of an archive, and of a sample of its others."""
    labeler = Labeler(archive.model, prompts, {})
    names: list[str] = []
    scores, means = [], []
    for part in archive.parts:
        snapshot = part.snapshot
        known = part.catalogue.known_images()
        numbers = np.array([known[name] for name in wanted if name in known], dtype=np.int64)
        step = max(1, len(snapshot.live) * len(archive.parts) // SAMPLE)
        places = np.union1d(snapshot.places_of(numbers), snapshot.live[::step])
        called = {number: name for name, number in known.items()}
        names += [called[int(number)] for number in snapshot.numbers[places]]
        for some in np.array_split(places, len(places) // 64 + 1):
            regions = unpack(rows_of(snapshot.arrays["regions"], some))
            scores.append(labeler.differences(regions).double().numpy())
            means.append(mean_region(regions).double().numpy())
    if not names:
        raise DataError("the index holds no image; index some first")
    places_of = {name: place for place, name in enumerate(names)}
    return Seen(places_of, np.concatenate(scores, axis=1), np.concatenate(means))


def keep(checkpoint: Path, head: KeptHead) -> list[Path]:
    """Put a head into its checkpoint; gives where what was there before is kept.

    Findings whose scores are others now are no longer calibrated, until that is done again.
    """
    former = [
        _copied(checkpoint / kind.FILE)
        for kind in (KeptHead, KeptCalibration)
        if (checkpoint / kind.FILE).is_file()
    ]
    fitted = KeptCalibration.load(checkpoint, head.fingerprint)
    before = KeptHead.load(checkpoint, head.fingerprint)
    changed = {*head.findings, *(before.findings if before else ())}
    head.save(checkpoint)
    if fitted is not None:
        valid = {name: one for name, one in fitted.findings.items() if name not in changed}
        fitted.model_copy(update={"findings": valid}).save(checkpoint)
    return former


def _copied(path: Path) -> Path:
    """A copy of a file under the next number, such as head.1.json."""
    number = sum(1 for _ in path.parent.glob(f"{path.stem}.*{path.suffix}")) + 1
    return Path(shutil.copyfile(path, path.with_suffix(f".{number}{path.suffix}")))


def summary(found: Learned) -> dict[str, Any]:
    return {
        "kept": found.head is not None,
        "said": found.said,
        "marks": found.marks,
        "gain": found.gain,
        "findings": list(found.head.findings) if found.head else [],
    }
