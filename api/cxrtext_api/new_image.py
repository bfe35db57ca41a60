"""What a caller says of an image that it adds."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, File, Form, UploadFile

from cxrtext.errors import InputError
from cxrtext_api.about import MAX_REPORT_CHARACTERS
from cxrtext_api.deps import ResourcesDep

MAX_ID = 200
MAX_ENTRIES = 64
MAX_NAME = 64
MAX_VALUE = 500
MAX_METADATA = 50_000

_PART = "[A-Za-z0-9_][A-Za-z0-9._-]*"
IMAGE_ID = re.compile(rf"{_PART}(?:/{_PART})*")
NAME = re.compile(r"[A-Za-z0-9_.:-]+")
"""Names of studies and patients: DICOM's UIDs and common numbering fit."""

RESERVED = frozenset(
    {"image", "image_id", "study_id", "patient_id", "split", "height", "width", "score"}
    | {"report", "findings", "impression", "indication", "comparison"}
)
"""Names that metadata must not have: the catalogue's own columns, and those of a report."""

Split = Literal["train", "val", "test"]


@dataclass(frozen=True, slots=True)
class NewImageForm:
    """An image to be added, as the form's fields say; see the route."""

    data: bytes
    image_id: str | None
    study_id: str | None
    patient_id: str | None
    split: Split | None
    metadata: dict[str, str]
    report: str | None
    replace: bool


async def _new_image_form(
    resources: ResourcesDep,
    image: Annotated[UploadFile, File(description="PNG, JPEG or DICOM, told by content.")],
    image_id: Annotated[
        str | None,
        Form(
            max_length=MAX_ID,
            description="Its id; by default one made of its pixels.",
            examples=["p0007/s0012.png"],
        ),
    ] = None,
    study_id: Annotated[
        str | None, Form(max_length=MAX_ID, description="Its study; by default the image's id.")
    ] = None,
    patient_id: Annotated[
        str | None, Form(max_length=MAX_ID, description="Its patient; by default its study.")
    ] = None,
    split: Annotated[
        Split | None, Form(description="By default that of its patient, else test.")
    ] = None,
    metadata: Annotated[
        str | None,
        Form(
            max_length=MAX_METADATA,
            description="More columns, as a JSON object of texts and numbers.",
            examples=['{"view": "PA", "age": 61}'],
        ),
    ] = None,
    report: Annotated[
        str | None,
        Form(max_length=MAX_REPORT_CHARACTERS, description="Its study's report."),
    ] = None,
    replace: Annotated[
        bool, Form(description="Whether it may take the place of one of the same id.")
    ] = False,
) -> NewImageForm:
    if image_id is not None:
        check_image_id(image_id)
    for field, value in (("study_id", study_id), ("patient_id", patient_id)):
        if value is not None and not NAME.fullmatch(value):
            raise InputError(f"{field}: write it with A-Z a-z 0-9 . _ : - alone")
    said = {} if metadata is None else parse_metadata(metadata)
    resources.hold_bytes(image.size or 0)
    data = await image.read()
    return NewImageForm(data, image_id, study_id, patient_id, split, said, report, replace)


def check_image_id(image_id: str) -> None:
    """Refuse an id that could name a file outside of its folder, or another address.

    Raises:
        InputError: It does; it is not quoted.
    """
    if not IMAGE_ID.fullmatch(image_id) or ".." in image_id:
        raise InputError(
            "image_id: write it with A-Z a-z 0-9 . _ - and / between parts, each part beginning "
            "with a letter, a digit or _, without '..'"
        )
    if image_id.rpartition("/")[2] == "rendered":
        raise InputError("image_id: its last part must not be 'rendered'")


def parse_metadata(text: str) -> dict[str, str]:
    """Read metadata from JSON.

    Returns:
        The entries as text; those that are null or empty are left out.

    Raises:
        InputError: It is of another form; what was sent is not quoted.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or len(value) > MAX_ENTRIES:
        raise InputError(
            f"metadata: expected a JSON object of at most {MAX_ENTRIES} texts and numbers"
        )
    found = {}
    for number, (name, entry) in enumerate(value.items(), 1):
        if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or name.strip() != name:
            raise InputError(
                f"metadata: the name of entry {number} is empty, has more than {MAX_NAME} "
                "characters, or holds some that are not printed"
            )
        if name.lower() in RESERVED or name.lower().startswith("label."):
            raise InputError(
                f"metadata: entry {number} has a name that is taken ("
                f"{', '.join(sorted(RESERVED))}, label.*)"
            )
        if (said := _cell(entry, number)) != "":
            found[name] = said
    return found


def _cell(entry: Any, number: int) -> str:
    if entry is None:
        return ""
    if isinstance(entry, bool | int | str) or (isinstance(entry, float) and entry == entry):
        said = str(entry).strip()
        if len(said) <= MAX_VALUE and "\0" not in said and _is_text(said):
            return said
    raise InputError(
        f"metadata: entry {number} is no text or number of at most {MAX_VALUE} characters"
    )


def _is_text(value: str) -> bool:
    """Whether there is no half of a surrogate pair in it, which UTF-8 cannot write."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def sentences_of(report: str, study_id: str) -> Sequence[tuple[str, str, int, str]]:
    """The sentences (study, section, position, text) of a report that describe the image.

    Raises:
        InputError: There are too many.
    """
    from cxrtext.records import Study
    from cxrtext.service.verify.sentences import MAX_REPORT_SENTENCES
    from cxrtext.text import study_sentences

    said = study_sentences(Study(study_id, report=report))
    if len(said) > MAX_REPORT_SENTENCES:
        raise InputError(f"the report has more than {MAX_REPORT_SENTENCES} sentences")
    return [(study_id, s.section, s.position, s.sentence) for s in said]


NewImageDep = Annotated[NewImageForm, Depends(_new_image_form)]
