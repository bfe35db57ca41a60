"""What marks say of findings, and which film is worth a reader's next look."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cxrtext.errors import DataError, InputError
from cxrtext.evaluation.classification.head import Archived, apply_head, fit_head
from cxrtext.evaluation.metrics import Floats
from cxrtext.evaluation.rows import YOUDEN
from cxrtext.index import Index, IndexedImage
from cxrtext.records.manifest import LABEL
from cxrtext.records.marks import Kind, Mark, Verdict, now
from cxrtext.service.service import Service
from cxrtext.text.labelling import sentence_labels

NEAREST = 0.25
"""The share of films that are least certain, among which the next is the one most unlike those
that are marked."""
BEGUN = 6  # marks of a finding from which on a head of them says what is uncertain


@dataclass(frozen=True, slots=True)
class Truth:
    """What marks make of a finding in an image."""

    image: str
    study_id: str
    patient_id: str
    finding: str
    value: int  # 1 there, 0 absent, -1 unclear, or readers differ


def truths_of(marks: Sequence[Mark], findings: Collection[str]) -> list[Truth]:
    """What marks of findings, sentences and hits make of some findings.

    A sentence says what rules read in it.  One that is wrong denies its finding where it names one
    alone and no side: "small left effusion" may be wrong in the side.
    """
    said: dict[tuple[str, str], list[tuple[Mark, int]]] = {}
    for mark in marks:
        for finding, value in _values(mark, findings).items():
            said.setdefault((mark.image, finding), []).append((mark, value))
    found = []
    for (image, finding), some in said.items():
        one, values = some[0][0], {value for _, value in some}
        value = values.pop() if len(values) == 1 else -1
        found.append(Truth(image, one.study_id, one.patient_id, finding, value))
    return found


def _values(mark: Mark, findings: Collection[str]) -> dict[str, int]:
    if mark.kind == "finding":
        return {mark.text: mark.value} if mark.text in findings else {}
    if mark.kind == "box" or mark.verdict == "unclear":
        return {}
    labels = {name: one for name, one in sentence_labels(mark.text).items() if one.value in (0, 1)}
    if mark.verdict == "wrong":
        if len(labels) != 1 or any(one.side for one in labels.values()):
            return {}
        labels = {name: one._replace(value=1 - (one.value or 0)) for name, one in labels.items()}
    return {name: one.value or 0 for name, one in labels.items() if name in findings}


def mark_of(
    service: Service, who: str, image_id: str, kind: Kind, verdict: Verdict, **what: Any
) -> Mark:
    """A mark of an indexed image, made now by a reader; ``what``: text, said, box (errors)."""
    image = service.find_image(image_id)
    fingerprint = service.model.fingerprint
    about = (who, now(), fingerprint, image.image, image.study_id, image.patient_id)
    return Mark(*about, kind=kind, verdict=verdict, **what)


def threshold_of(service: Service, finding: str) -> float:
    """The probability from which a finding is called present: its calibrated one, else a half."""
    kept = service.calibration and service.calibration.measured_of(
        finding, service.prompts[finding]
    )
    point = kept.points.get(YOUDEN) if kept else None
    return 0.5 if not kept or not point else float(kept.calibration.probabilities(point.threshold))


def next_film(service: Service, finding: str, marks: Sequence[Mark]) -> IndexedImage | None:
    """The film that a mark of a finding would tell most about; None where all are marked.

    Of the films that are least certain, the one that is most unlike those that are marked.  What is
    uncertain is what lies near the threshold of the kept probabilities, and once a few marks are
    there, near that of a head fitted on them (InputError, DataError).
    """
    if finding not in service.prompts:
        raise InputError(f"finding: none of the prompts; give one of {', '.join(service.prompts)}")
    known = {one.image: one.value for one in truths_of(marks, [finding])}
    parts = service.archive.parts
    kept = [_kept(part, finding) for part in parts]
    where = [(which, number) for which, (rows, _) in enumerate(kept) for number, *_ in rows]
    names = [name for rows, _ in kept for _, name, _ in rows]
    probabilities = np.array([p for rows, _ in kept for *_, p in rows]).clip(1e-6, 1 - 1e-6)
    means = np.concatenate([found for _, found in kept])
    threshold = threshold_of(service, finding)
    logits = np.log(probabilities / (1 - probabilities)) - np.log(threshold / (1 - threshold))
    place = choose_next(logits, means, [known.get(name) for name in names])
    if place is None:
        return None
    which, number = where[place]
    return parts[which].catalogue.images([number])[0]


def _kept(part: Index, finding: str) -> tuple[list[tuple[int, str, float]], Floats]:
    """Number, id and kept probability of each image of an index, and their means [n, D]."""
    column = part.catalogue.columns().get(LABEL + finding)
    if column is None:
        raise DataError(
            f"{part.folder}: keeps no probabilities of {finding}; 'cxrtext classify --keep' makes "
            "them"
        )
    query = f"SELECT number, image, c{int(column)} FROM attributes JOIN images USING (number)"  # noqa: S608
    rows = {row[0]: row for row in part.catalogue.database.execute(query) if row[2] is not None}
    snapshot = part.snapshot
    places = [place for place in snapshot.live if int(snapshot.numbers[place]) in rows]
    means = np.asarray(snapshot.arrays["means"][places], dtype=np.float64)
    return [rows[int(snapshot.numbers[place])] for place in places], means


def choose_next(logits: Floats, means: Floats, known: Sequence[int | None]) -> int | None:
    """The place of the next film to mark, among n films; None where all are marked.

    Logits [n] are 0 at the threshold, means [n, D] unit vectors; ``known`` says what is marked: 1,
    0, -1 for unclear, None where nothing is.

    Source: Lewis and Gale 1994 (uncertainty); Sener and Savarese 2018 (one step of core-set).
    """
    left = np.array([place for place, one in enumerate(known) if one is None], dtype=np.intp)
    if not len(left):
        return None
    told = [place for place, one in enumerate(known) if one in (0, 1)]
    truth = np.array([known[place] for place in told], dtype=np.float64)
    if len(told) >= BEGUN and 0 < truth.sum() < len(truth):
        head = fit_head(logits[told], means[told], truth, Archived.of(logits, means))
        logits = apply_head(head, logits, means)
    order = np.argsort(np.abs(logits[left]), kind="stable")
    nearest = left[order[: max(1, round(NEAREST * len(left)))]]
    marked = [place for place, one in enumerate(known) if one is not None]
    if not marked:
        return int(nearest[0])
    likeness = means[nearest] @ means[marked].T
    return int(nearest[likeness.max(axis=1).argmin()])


def label_rows(marks: Sequence[Mark], findings: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a table of labels, a study each, as training and ``fit --labels`` take it.

    1, 0, -1 where readers or images of a study differ or were unclear, and blank where none marked.
    """
    rows: dict[str, dict[str, str]] = {}
    for one in truths_of(marks, findings):
        row = rows.setdefault(
            one.study_id, {"study_id": one.study_id, **dict.fromkeys(findings, "")}
        )
        row[one.finding] = str(one.value) if row[one.finding] in ("", str(one.value)) else "-1"
    return [rows[study] for study in sorted(rows)]


def box_rows(marks: Sequence[Mark]) -> list[dict[str, str]]:
    """Rows of a table of boxes, as :func:`cxrtext.records.boxes.iter_boxes` reads it.

    Of those that are right alone.
    """
    return [
        {"image": one.image, "label_text": one.text}
        | dict(zip("xywh", (f"{value:g}" for value in one.box), strict=True))
        for one in marks
        if one.box is not None and one.verdict == "right"
    ]
