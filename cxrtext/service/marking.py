"""What marks say of findings."""

from collections.abc import Collection, Sequence
from typing import Any

from cxrtext.records.marks import Kind, Mark, Verdict, check_mark, now
from cxrtext.service.service import Service
from cxrtext.text.labelling import sentence_labels


def _values(mark: Mark, findings: Collection[str]) -> dict[str, int]:
    """What a mark of a finding, a sentence or a hit makes of some findings.

    A sentence says what rules read in it.  One that is wrong denies its finding where it names one
    alone and no side: "small left effusion" may be wrong in the side.
    """
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
    """A mark of an indexed image, made now by a reader; ``what``: text, said, box.

    It is checked (InputError, NotFoundError).
    """
    image = service.find_image(image_id)
    fingerprint = service.model.fingerprint
    about = (who, now(), fingerprint, image.image, image.study_id, image.patient_id)
    mark = Mark(*about, kind=kind, verdict=verdict, **what)
    check_mark(mark, image.width, image.height)
    return mark


def label_rows(marks: Sequence[Mark], findings: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a table of labels, a study each, as training and ``fit --labels`` take it.

    1, 0, -1 where readers or images of a study differ or were unclear, and blank where none marked.
    """
    rows: dict[str, dict[str, str]] = {}
    for mark in marks:
        for finding, value in _values(mark, findings).items():
            row = rows.setdefault(
                mark.study_id, {"study_id": mark.study_id, **dict.fromkeys(findings, "")}
            )
            row[finding] = str(value) if row[finding] in ("", str(value)) else "-1"
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
