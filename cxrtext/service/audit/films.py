"""Films of an index beside the reports of their studies: evidence, and how well a report fits.

Regions are read as the index keeps them, some films at a time.  Each report is scored with its own
film and with those of other patients beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation.verdicts.evidence import Contrast, Floats, evidence_of
from cxrtext.index import Archive
from cxrtext.index.features.scoring import exact_scores
from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.index.store.vectors import rows_of
from cxrtext.models.regions import unpack
from cxrtext.pausing import Progress

BESIDE = 32
"""Films that a report is scored with, its own among them; bounds memory, too."""
FEWEST_BESIDE = 8
"""Films of other patients that a fit is measured by."""

Reports = Mapping[str, Sequence[str]]
"""The sentences of reports, in order, by study."""
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Films:
    """[B] films of studies with a report.

    ``presence`` and ``left`` [B, F] are the evidence for each finding, and for its left side rather
    than the right (NaN where it is not asked for by side).  ``fit[i, c]`` [B, C] is how well the
    report of film i fits film ``beside[i, c]``, in standard deviations of the other patients'
    films there; NaN for other films of the patient, and where they are too few.
    """

    images: list[IndexedImage]
    findings: tuple[str, ...]
    presence: Floats
    left: Floats
    fit: Floats
    beside: Rows

    def __len__(self) -> int:
        return len(self.images)


def indexed_reports(archive: Archive) -> dict[str, list[str]]:
    """The reports that an index holds: their sentences that describe the image."""
    found: dict[str, list[str]] = {}
    for part in archive.parts:
        rows = part.catalogue.database.execute(
            "SELECT study_id, s.sentence FROM said JOIN sentences s ON s.number = said.sentence "
            "ORDER BY study_id, section, position"
        )
        for study, sentence in rows:
            found.setdefault(study, []).append(sentence)
    return found


@torch.inference_mode()
def read_films(
    archive: Archive,
    reports: Reports,
    contrasts: Mapping[str, Contrast],
    progress: Progress | None = None,
) -> Films:
    """The films of an archive whose studies have a report, but those unlike the training data."""
    vectors = _vectors(archive, reports)
    model, images = archive.model, list[IndexedImage]()
    parts: list[tuple[Floats, Floats, Floats, Rows]] = []
    total = sum(part.snapshot.images for part in archive.parts)
    for part in archive.parts:
        snapshot = part.snapshot
        for places in np.array_split(snapshot.live, -(-snapshot.images // BESIDE) or 1):
            numbers = snapshot.numbers[places].tolist()
            unlike = part.catalogue.unlike(numbers)
            chosen = [
                (image, place)
                for image, place in zip(part.catalogue.images(numbers), places, strict=True)
                if image and reports.get(image.study_id) and unlike.get(image.number, 0.0) <= 1
            ]
            if not chosen:
                continue
            some = [image for image, _ in chosen]
            at = np.array([place for _, place in chosen])
            regions = unpack(rows_of(snapshot.arrays["regions"], at))
            there, left = evidence_of(model, regions, contrasts)
            distinct, weights = _weights([reports[one.study_id] for one in some])
            texts = torch.stack([vectors[one] for one in distinct])
            scores = weights @ exact_scores(model, regions, texts).double().numpy()
            fit = np.full((len(some), BESIDE), np.nan)
            fit[:, : len(some)] = standardized(scores, [one.patient_id for one in some])
            beside = np.full(fit.shape, -1)
            beside[:, : len(some)] = len(images) + np.arange(len(some))
            none = np.full(len(some), np.nan)
            sides = [left.get(name, none) for name in contrasts]
            parts.append((np.array(list(there.values())).T, np.array(sides).T, fit, beside))
            images += some
            if progress:
                progress(len(images), total)
    columns = map(np.concatenate, zip(*parts, strict=True)) if parts else [np.empty((0, 1))] * 4
    return Films(images, tuple(contrasts), *columns)


def _vectors(archive: Archive, reports: Reports) -> dict[str, Tensor]:
    """The vector of each distinct sentence; those that the index holds are not embedded again."""
    found: dict[str, Tensor] = {}
    for part in archive.parts:
        snapshot = part.snapshot
        known = dict(zip(snapshot.sentence_numbers.tolist(), snapshot.texts, strict=True))
        sentences = part.catalogue.known_sentences().items()
        found |= {sentence: known[n] for sentence, n in sentences if n in known}
    new = list({one for said in reports.values() for one in said} - found.keys())
    if new:
        embedded = archive.model.embed_sentences(sorted(new)).float().cpu()
        found |= dict(zip(sorted(new), embedded, strict=True))
    return found


def _weights(reports: Sequence[Sequence[str]]) -> tuple[list[str], Floats]:
    """The distinct sentences of [b] reports, and the weight of each in each report, [b, S]."""
    distinct = sorted({one for said in reports for one in said})
    column = {one: at for at, one in enumerate(distinct)}
    weights = np.zeros((len(reports), len(distinct)))
    for row, said in enumerate(reports):
        np.add.at(weights[row], [column[one] for one in said], 1 / len(said))
    return distinct, weights


def standardized(scores: Floats, patients: Sequence[str]) -> Floats:
    """Scores [b, b] of reports with films as deviations from those of other patients' films.

    What a film adds to every report's score is taken off first.  NaN as in :class:`Films`.
    """
    same = np.equal.outer(np.array(patients), np.array(patients))
    if (~same).sum(axis=1).min() < FEWEST_BESIDE:
        return np.full(scores.shape, np.nan)
    centered = scores - scores.mean(axis=0)
    others = np.where(same, np.nan, centered)
    middle, spread = np.nanmean(others, axis=1), np.nanstd(others, axis=1)
    found: Floats = (centered - middle[:, None]) / np.maximum(spread, 1e-9)[:, None]
    return np.where(same & ~np.eye(len(scores), dtype=bool), np.nan, found)
