"""The form of a search."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le
from fastapi import Depends, Form

from cxrtext.errors import InputError
from cxrtext_api.deps import AnyImageDep, ChosenImage, ImageId
from cxrtext_api.filters import MAX_WHERE, WHERE
from cxrtext_api.numbers import DECIMAL, WHOLE

MAX_RESULTS = 1000
MAX_OFFSET = 10_000
MAX_QUERIES = 16
MAX_PATIENTS = 64

Target = Literal["images", "sentences"]
Unique = Literal["patient", "study", "picture"]
Mode = Literal["auto", "exact", "fast"]


@dataclass(frozen=True, slots=True)
class SearchForm:
    """What is looked for, as the form's fields say; see the route."""

    queries: list[str]
    without: list[str]
    image: ChosenImage | None
    image_id: str | None
    image_weight: float
    k: int
    offset: int
    target: Target
    where: str | None
    min_score: float | None
    unique: Unique | None
    exclude_patients: list[str]
    other_patients: bool
    mode: Mode


async def _search_form(
    image: AnyImageDep,
    image_id: ImageId = None,
    query: Annotated[
        list[str],
        Form(
            max_length=MAX_QUERIES,
            description="A sentence that an image is to fit; of several the mean counts.",
            examples=[["Large right pneumothorax."]],
        ),
    ] = [],  # noqa: B006 - FastAPI copies it
    without: Annotated[
        list[str],
        Form(
            alias="not",
            max_length=MAX_QUERIES,
            description="A sentence that it is not to fit.",
            examples=[["Chest tube."]],
        ),
    ] = [],  # noqa: B006
    image_weight: Annotated[
        float,
        Ge(0),
        Le(1),
        DECIMAL,
        Form(description="Weight of an image beside sentences."),
    ] = 0.5,
    k: Annotated[int, Ge(1), Le(MAX_RESULTS), WHOLE, Form(description="How many to find.")] = 10,
    offset: Annotated[
        int, Ge(0), Le(MAX_OFFSET), WHOLE, Form(description="How many of the best to skip.")
    ] = 0,
    target: Annotated[Target, Form(description="What to find.")] = "images",
    where: Annotated[str | None, Form(max_length=MAX_WHERE, description=WHERE)] = None,
    min_score: Annotated[
        float | None,
        Ge(-2),
        Le(2),
        DECIMAL,
        Form(description="Leave out what scores less."),
    ] = None,
    unique: Annotated[
        Unique | None, Form(description="One result a patient, a study or a picture.")
    ] = None,
    exclude_patient: Annotated[
        list[str], Form(max_length=MAX_PATIENTS, description="A patient to leave out.")
    ] = [],  # noqa: B006
    other_patients: Annotated[
        bool, Form(description="Leave out the patient of the image_id.")
    ] = False,
    mode: Annotated[
        Mode, Form(description="exact proves the order; fast looks at candidates only.")
    ] = "auto",
) -> SearchForm:
    chosen = image if isinstance(image, ChosenImage) else None
    form = SearchForm(
        query,
        without,
        chosen,
        image_id,
        image_weight,
        k,
        offset,
        target,
        where,
        min_score,
        unique,
        exclude_patient,
        other_patients,
        mode,
    )
    _check(form)
    return form


def _check(form: SearchForm) -> None:
    if not form.queries and form.image is None:
        raise InputError("give a query, an image, or the image_id of an indexed one")
    if form.other_patients and form.image_id is None:
        raise InputError("other_patients wants an image_id: a file does not say whose it is")
    if form.target == "images":
        return
    if len(form.queries) + (form.image is not None) > 1:
        raise InputError("sentences are found by one query or by one image, not by both")
    if (
        form.without
        or form.unique
        or form.exclude_patients
        or form.other_patients
        or form.mode != "auto"
    ):
        raise InputError(
            "not, unique, exclude_patient, other_patients and mode are for target=images"
        )


SearchFormDep = Annotated[SearchForm, Depends(_search_form)]
