"""What requests send."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

Unique = Literal["patient", "study", "picture"]
Mode = Literal["auto", "exact", "fast"]
Split = Literal["train", "val", "test"]


def search_form(
    query: str | Sequence[str] = (),
    *,
    without: Sequence[str] = (),
    image_weight: float | None = None,
    k: int = 10,
    offset: int = 0,
    where: str | None = None,
    min_score: float | None = None,
    unique: Unique | None = None,
    exclude_patients: Sequence[str] = (),
    other_patients: bool = False,
    mode: Mode = "auto",
) -> dict[str, Any]:
    """The form of a search for images.

    Args:
        query: Sentences that an image is to fit; of several the mean counts.
        without: Sentences that it is not to fit.
        image_weight: Weight of an image beside sentences, in [0, 1].
        k: How many to find.
        offset: How many of the best to skip.
        where: A filter over the columns.
        min_score: Leave out what scores less.
        unique: One result a patient, a study or a picture.
        exclude_patients: Patients to leave out.
        other_patients: Leave out the patient of the indexed image.
        mode: "exact" proves the order; "fast" looks at candidates only.
    """
    return {
        "query": [query] if isinstance(query, str) else list(query),
        "not": list(without),
        "image_weight": image_weight,
        "k": k,
        "offset": offset,
        "where": where,
        "min_score": min_score,
        "unique": unique,
        "exclude_patient": list(exclude_patients),
        "other_patients": "true" if other_patients else None,
        "mode": mode,
    }


def given(form: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a form that were given."""
    return {name: value for name, value in form.items() if value is not None and value != []}


def address_of(image_id: str) -> str:
    """The address of an indexed image on its server."""
    return f"/v1/images/{quote(image_id)}"
