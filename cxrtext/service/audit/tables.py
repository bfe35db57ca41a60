"""An audit as tables: a row for each disagreement, and counts beside what they would be."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cxrtext.evaluation.verdicts.fit import RATE
from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.service.audit.audit import Audit, Disagreement

TAKEN = 0.1
"""The false-discovery rate of the lists that are counted."""
DEVICE, SITE = ("device", "model", "manufacturer", "scanner"), ("site",)
"""Columns of the manifest that name them, the first that has a cell."""
Row = dict[str, Any]


def disagreement_rows(audit: Audit) -> list[Row]:
    """The rows of ``audit.csv``, the likeliest first; sentences are counted from 1."""
    return [
        {name: getattr(one.image, name) for name in ("image", "study_id", "patient_id", "split")}
        | {"kind": one.kind, "finding": one.finding}
        | {"sentence": "" if one.sentence is None else one.sentence + 1}
        | {name: round(getattr(one, name), 4) for name in ("evidence", "probability", "q")}
        | {"fitted_on": int(one.fitted_on)}
        | {"device": _cell(one.image, DEVICE), "site": _cell(one.image, SITE)}
        for one in audit.found
    ]


def summary(audit: Audit) -> Row:
    """What ``summary.json`` holds; stale texts are counted as what they say, and once more."""
    by_finding = [
        {"kind": one.kind, "finding": one.finding, "asked": one.times, "if_right": RATE * one.times}
        | _counts([d for d in audit.found if (d.was, d.finding) == (one.kind, one.finding)])
        | {"if_dealt": float(one.dealt.sum())}
        for one in audit.asked
    ]
    counts = _counts(audit.found)
    return {
        "films": len(audit.films),
        "sentences": audit.sentences,
        "judged": audit.judged,
        **{name: sum(row[name] for row in by_finding) for name in ("if_right", "if_dealt")},
        **counts,
        "unordered": audit.unordered,
        "stale": sum(one.kind != one.was for one in audit.found),
        "expected_wrong": sum(1 - one.probability for one in audit.found if one.q <= TAKEN),
        "by_finding": by_finding,
        "by_device": _by(audit, DEVICE),
        "by_site": _by(audit, SITE),
        "seconds": dict(audit.seconds),
    }


def _by(audit: Audit, columns: Sequence[str]) -> list[Row]:
    """Counts by what some columns say of a film; none where they say nothing of any."""
    names = np.array([_cell(image, columns) for image in audit.films.images])
    dealt = np.sum([one.dealt for one in audit.asked], axis=0)
    groups = sorted(set(names.tolist()))
    return [
        {"name": group or "not given", "films": int((names == group).sum())}
        | _counts([one for one in audit.found if _cell(one.image, columns) == group])
        | {"if_dealt": float(dealt[names == group].sum())}
        for group in (groups if any(groups) else ())
    ]


def _cell(image: IndexedImage, columns: Sequence[str]) -> str:
    return next(filter(None, (image.metadata.get(name) for name in columns)), "")


def _counts(found: Sequence[Disagreement]) -> Row:
    return {"marked": len(found), "taken": sum(one.q <= TAKEN for one in found)}
