"""What may enter the index over HTTP, under which ids, and what is there already.

The rules are those of ``cxrtext import``: `cxrtext.datasets.admission` decides.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.datasets.admission import decide
from cxrtext.datasets.admission.ids import Ids, is_uid, object_ids
from cxrtext.images.frontal import look
from cxrtext.service.alike import alike, shown_pixels
from cxrtext_api.changes import TAKEN, NewImageForm, Said, is_of_others
from cxrtext_api.gate.keys import READ, Caller
from cxrtext_api.problems import Refusal
from cxrtext_api.runtime.uploads import Pixels

if TYPE_CHECKING:
    from cxrtext.images.dicom.described import Described
    from cxrtext.index.store.catalogue import IndexedImage
    from cxrtext.service import EmbeddedImage, Service

SAME = "The same pixels are in the index under another id, {}; send replace=true to add them again."
SAME_OTHERWISE = (
    "The same pixels are in the index as {}, under another study or patient: whose are they? "
    "Delete the wrong one, or send replace=true to add them again."
)
LONGEST = 200


def entered(form: NewImageForm, said: "Described | None", ids: Ids) -> NewImageForm:
    """The form with what a DICOM header says where it is silent.

    Args:
        said: The header; None where a PNG or a JPEG was sent, which say nothing.
        ids: Gives the ids of headers as they are, or their hashes.

    Raises:
        Refusal: The object is none that enters an archive; the detail says why.
    """
    if said is None:
        return form
    found = decide(said)
    if not found.enters:
        raise Refusal(422, f"The image does not enter the archive: {found}.")
    own = object_ids(said)
    named = ids.of("instance", own.instance) if is_uid(own.instance) else None
    metadata = {"view": found.view, **form.metadata} if found.view else form.metadata
    return replace(
        form,
        image_id=form.image_id or named,
        study_id=form.study_id or _usable(ids.of("study", own.study)),
        patient_id=form.patient_id or _usable(ids.of("patient", own.patient)),
        metadata=metadata,
        by_header=form.image_id is None and named is not None,
    )


def _usable(value: str) -> str | None:
    return value if value and len(value) <= LONGEST and value.isprintable() else None


def looks_like(pixels: Pixels) -> str | None:
    """What else than a frontal chest a picture looks like: shown, never a reason to refuse."""
    seen = look(pixels)
    return None if seen.frontal else seen.kind


def existing(
    service: "Service",
    name: str,
    form: NewImageForm,
    said: list[Said],
    image: "EmbeddedImage",
    pixels: Pixels,
    caller: Caller,
) -> str | None:
    """The id under which the index holds what was sent, so that sending it twice changes nothing.

    A DICOM object whose header was corrected comes with the same SOPInstanceUID and the same
    pixels: it is no refusal, and takes the place of the one before.  Of others' images only a
    caller that may read learns.

    Returns:
        The id; None where there is no such image, or one that is to be replaced.

    Raises:
        Refusal: The id, or the pixels, belong to something else.
    """
    known = next(filter(None, (part.catalogue.image(name) for part in service.archive.parts)), None)
    if known is not None:
        if not _may_know(service, name, caller) or not _has_pixels(service, known, pixels):
            raise Refusal(409, TAKEN)
        if _agrees(service, known, form, said):
            return name
        if form.by_header:
            return None
        raise Refusal(409, TAKEN)
    if READ not in caller.scopes:
        return None
    for other in alike(service, image, pixels.shape):
        if not _has_pixels(service, other, pixels):
            continue
        if form.image_id is None and _agrees(service, other, form, said):
            return other.image
        same = (form.study_id or other.study_id, form.patient_id or other.patient_id)
        detail = SAME if same == (other.study_id, other.patient_id) else SAME_OTHERWISE
        raise Refusal(409, detail.format(other.image))
    return None


def _may_know(service: "Service", name: str, caller: Caller) -> bool:
    if READ in caller.scopes:
        return True
    parts = [part.catalogue for part in service.archive.parts]
    return not is_of_others(parts, "image", name, caller)


def _has_pixels(service: "Service", known: "IndexedImage", pixels: Pixels) -> bool:
    if (known.height, known.width) != pixels.shape:
        return False
    shown = shown_pixels(service, known)
    return shown is not None and np.array_equal(shown, pixels)


def _agrees(
    service: "Service", known: "IndexedImage", form: NewImageForm, said: list[Said]
) -> bool:
    """Whether the index has of an image what a form says of it."""
    stated = (
        (form.study_id, known.study_id),
        (form.patient_id, known.patient_id),
        (form.split, known.split),
        *((value, known.metadata.get(name)) for name, value in form.metadata.items()),
    )
    if any(new is not None and new != old for new, old in stated):
        return False
    if not said:
        return True
    return service.archive.report(known.study_id) == [(section, text) for section, _, text in said]
