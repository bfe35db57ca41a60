"""An audit as tables: a row for each disagreement, and counts beside what they would be."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.service.audit.audit import Audit, Disagreement

TAKEN = 0.1
"""The false-discovery rate of the lists that are counted."""
DEVICE = ("device", "model", "manufacturer", "scanner")
SITE = ("site",)
"""Columns of the manifest that name them, the first that has a cell."""
Row = dict[str, Any]


def cell(image: IndexedImage, columns: Sequence[str]) -> str:
    return next(filter(None, (image.metadata.get(name) for name in columns)), "")


def disagreement_rows(audit: Audit) -> list[Row]:
    """The columns of ``audit.csv``, the likeliest first; sentences are counted from 1."""
    return [
        {
            "image": one.image.image,
            "study_id": one.image.study_id,
            "patient_id": one.image.patient_id,
            "split": one.image.split,
            "kind": one.kind,
            "finding": one.finding,
            "sentence": "" if one.sentence is None else one.sentence + 1,
            "evidence": round(one.evidence, 4),
            "probability": round(one.probability, 4),
            "q": round(one.q, 4),
            "fitted_on": int(one.fitted_on),
            "device": cell(one.image, DEVICE),
            "site": cell(one.image, SITE),
        }
        for one in audit.found
    ]


def counts_by_finding(audit: Audit) -> list[Row]:
    """By kind and finding; stale texts are among those of what they say, too."""
    found = [
        {"kind": one.kind, "finding": one.finding, "asked": one.times}
        | _counts([d for d in audit.found if (d.was, d.finding) == (one.kind, one.finding)])
        | {"if_right": round(one.if_right, 1), "if_dealt": round(float(one.dealt.sum()), 1)}
        for one in audit.asked
    ]
    stale = [one for one in audit.found if one.kind != one.was]
    return found + [{"kind": one.kind, "finding": ""} | _counts(stale) for one in stale[:1]]


def counts_by(audit: Audit, name: Callable[[IndexedImage], str]) -> list[Row]:
    """By what ``name`` says of a film; none where it says nothing of any."""
    places: dict[str, list[int]] = defaultdict(list)
    for row, image in enumerate(audit.films.images):
        places[name(image)].append(row)
    if set(places) <= {""}:
        return []
    dealt = np.sum([one.dealt for one in audit.asked], axis=0)
    of: dict[str, list[Disagreement]] = defaultdict(list)
    for one in audit.found:
        of[name(one.image)].append(one)
    return [
        {"name": group or "not given", "films": len(rows), **_counts(of[group])}
        | {"if_dealt": round(float(dealt[rows].sum()), 1)}
        for group, rows in sorted(places.items())
    ]


def _counts(found: Sequence[Disagreement]) -> Row:
    taken = sum(one.q <= TAKEN for one in found)
    return {"marked": len(found), "taken": taken}


def summary(audit: Audit) -> Row:
    """What ``summary.json`` holds."""
    taken = [one for one in audit.found if one.q <= TAKEN]
    return {
        "films": len(audit.films),
        "sentences": audit.sentences,
        "judged": audit.judged,
        "marked": len(audit.found),
        "if_right": round(sum(one.if_right for one in audit.asked), 1),
        "if_dealt": round(sum(float(one.dealt.sum()) for one in audit.asked), 1),
        "false_discovery_rate": TAKEN,
        "taken": len(taken),
        "expected_wrong": round(sum(1 - one.probability for one in taken), 1),
        "by_finding": counts_by_finding(audit),
        "by_device": counts_by(audit, lambda image: cell(image, DEVICE)),
        "by_site": counts_by(audit, lambda image: cell(image, SITE)),
        "seconds": dict(audit.seconds),
    }
