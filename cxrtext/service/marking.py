"""Marks of indexed images."""

from typing import Any

from cxrtext.records.marks import Kind, Mark, Verdict, check_mark, now
from cxrtext.service.service import Service


def mark_of(
    service: Service, who: str, image_id: str, kind: Kind, verdict: Verdict, **what: Any
) -> Mark:
    """A checked mark of an indexed image by a reader (InputError, NotFoundError).

    ``what``: text, said, box.
    """
    image = service.find_image(image_id)
    fingerprint = service.model.fingerprint
    about = (who, now(), fingerprint, image.image, image.study_id, image.patient_id)
    mark = Mark(*about, kind=kind, verdict=verdict, **what)
    check_mark(mark, image.width, image.height)
    return mark
