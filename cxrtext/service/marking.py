"""What is marked, and which film is worth a reader's next look."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError, InputError
from cxrtext.evaluation.rows import YOUDEN
from cxrtext.index import IndexedImage
from cxrtext.records.manifest import LABEL
from cxrtext.records.marks import Kind, Mark, Verdict, now
from cxrtext.service.service import Service

NEAREST = 50
"""Films of the least certain, of which the next is the one most unlike those that are marked."""


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


def next_film(service: Service, finding: str, marked: Collection[str]) -> IndexedImage | None:
    """The film that a mark of a finding would tell most about; None where all are marked.

    Of the films whose probability lies nearest to the threshold, the one that is most unlike those
    that are marked.  ``marked`` are ids of images (InputError, DataError).
    """
    if finding not in service.prompts:
        raise InputError(f"finding: none of the prompts; give one of {', '.join(service.prompts)}")
    threshold, best = threshold_of(service, finding), list[tuple[float, int, int]]()
    known: list[NDArray[np.float32]] = []
    parts = service.archive.parts
    for which, part in enumerate(parts):
        slots = part.catalogue.columns()
        if LABEL + finding not in slots:
            raise DataError(
                f"{part.folder}: keeps no probabilities of {finding}; 'cxrtext classify --keep' "
                "makes them"
            )
        rows = part.catalogue.database.execute(
            f"SELECT abs(c{int(slots[LABEL + finding])} - ?) AS far, number, image "  # noqa: S608
            "FROM attributes JOIN images USING (number) WHERE far IS NOT NULL ORDER BY far, number",
            (threshold,),
        )
        left = NEAREST
        for far, number, image in rows:
            if image in marked:
                known += [_mean(part, number)]
            elif left:
                best.append((far, which, number))
                left -= 1
    best = sorted(best)[:NEAREST]
    if not best:
        return None
    chosen = spread([_mean(parts[which], number) for _, which, number in best], known)
    _, which, number = best[chosen]
    return parts[which].catalogue.images([number])[0]


def _mean(part: Any, number: int) -> NDArray[np.float32]:
    (place,) = part.snapshot.places_of(np.array([number]))
    return np.asarray(part.snapshot.arrays["means"][place], dtype=np.float32)


def spread(candidates: Sequence[NDArray[np.float32]], known: Sequence[NDArray[np.float32]]) -> int:
    """The place of the candidate whose nearest known vector is farthest; of unit vectors [D].

    Source: Gonzalez 1985; Sener and Savarese 2018 (core-set), of one step.
    """
    if not known:
        return 0
    likeness = np.stack(candidates) @ np.stack(known).T
    return int(likeness.max(axis=1).argmin())
