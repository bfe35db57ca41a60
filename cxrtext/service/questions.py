"""The questions that can be asked, one model each, for every interface.

HTTP, the command line, the client and Python all build these models, so each rule is written once
and no option is silently dropped.  The descriptions become part of the API's description.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from cxrtext.errors import InputError
from cxrtext.service.limits import (
    MAX_FINDING_CHARACTERS,
    MAX_ID_CHARACTERS,
    MAX_OFFSET,
    MAX_PATIENTS,
    MAX_QUERIES,
    MAX_REPORT_CHARACTERS,
    MAX_RESULTS,
    MAX_WHERE,
    Mode,
    Target,
    Unique,
    check_prompts,
    check_sentence,
)

Written = Callable[[str], str]
"""Writes the name of a field as the user knows it: ``image_id`` as ``--image-id``."""

WHERE = "A filter over the columns of GET /v1/columns, such as: age > 60 and sex = 'F'."


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        from cxrtext.records.numbers import WHOLE  # with numpy, which a client need not have

        if not WHOLE.fullmatch(value):
            raise ValueError("write a whole number, such as 10")
    return value


def _decimal(value: Any) -> Any:
    if isinstance(value, str):
        from cxrtext.records.numbers import read_number

        return read_number(value)
    return value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else () if value is None else value


WHOLE = BeforeValidator(_whole)
"""Takes the text 10, but not 10.0 or 1_0.  Put it after bounds, or the API's description loses
them."""

DECIMAL = BeforeValidator(_decimal)  # takes 0.5, 1 and 5e-1, but not 1_0 or infinity
SEVERAL = BeforeValidator(_several)  # takes one text for a list of one
BLANK = BeforeValidator(lambda value: None if value == "" else value)
Sentences = Annotated[tuple[str, ...], Field(max_length=MAX_QUERIES), SEVERAL]
ImageId = Annotated[str | None, Field(max_length=MAX_ID_CHARACTERS), BLANK]
Threshold = Annotated[float | None, Field(ge=-1, le=1), DECIMAL]
FindingName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_FINDING_CHARACTERS)
]
Phrases = Annotated[Sequence[str], Field(min_length=1), SEVERAL]


class Prompts(BaseModel):
    """The prompts of one finding; several phrasings are averaged.

    Args:
        positive: Sentences that say that the finding is there.
        negative: Sentences that say that it is not.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        from_attributes=True,
        json_schema_extra={
            "examples": [{"positive": ["Rib fracture."], "negative": ["No rib fracture."]}]
        },
    )

    positive: Phrases
    negative: Phrases


_PROMPTS: TypeAdapter[dict[str, Prompts]] = TypeAdapter(dict[FindingName, Prompts])


def _prompts(value: Any) -> Any:
    """Prompts by finding, or as JSON (InputError, which does not quote what was sent)."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return _PROMPTS.validate_json(value)
        pairs = {name: _pair(one) for name, one in dict(value).items()}
        return _PROMPTS.validate_python(pairs)
    except (TypeError, ValueError):
        raise InputError(
            'prompts: expected {"finding": {"positive": ["…"], "negative": ["…"]}}, each list '
            "with at least one sentence"
        ) from None


def _pair(value: Any) -> Any:
    """Python may write the two sides as a pair."""
    if isinstance(value, tuple | list):
        positive, negative = value
        return {"positive": positive, "negative": negative}
    return value


class Question(BaseModel):
    """A question about an image, checked when it is made (InputError).

    ``image`` is whatever an interface takes for an image; the checks only ask if there is one.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True
    )

    image: Any = Field(default=None, exclude=True)
    image_id: ImageId = Field(default=None, description="The id of an indexed image instead.")

    @model_validator(mode="after")
    def _checked(self, info: ValidationInfo) -> Self:
        self.check((info.context or {}).get("written", str))
        return self

    def check(self, written: Written = str) -> None:
        """Refuse a question whose parts do not fit each other (InputError)."""
        self._one_source(written)
        if self.image is None and self.image_id is None:
            raise InputError(
                f"give {written('image')}, or the {written('image_id')} of an indexed one"
            )

    def _one_source(self, written: Written) -> None:
        if self.image is not None and self.image_id is not None:
            raise InputError(f"give either {written('image')} or {written('image_id')}, not both")


class Classify(Question):
    """Which findings an image shows."""

    prompts: Annotated[
        dict[FindingName, Prompts] | None,
        Field(
            description='Other findings, as JSON: {"finding": {"positive": […], "negative": […]}}.',
            examples=[
                '{"Fracture": {"positive": ["Rib fracture."], "negative": ["No fracture."]}}'
            ],
        ),
        BeforeValidator(_prompts),
    ] = None

    def check(self, written: Written = str) -> None:
        super().check(written)
        if self.prompts is not None:
            check_prompts(self.prompts)


class Ground(Question):
    """Where an image supports a sentence."""

    sentence: str = Field(description="What to look for.", examples=["Left pleural effusion."])
    threshold: Threshold = Field(
        default=None,
        description="The lowest score of a region that counts for the boxes; by default the lower "
        "of the sentence's limits or, without reference images, halfway between the mean and the "
        "maximum.",
    )
    as_written: bool = Field(
        default=False,
        description="Embed sentences as sent, not reworded as in the reports.",
    )

    def check(self, written: Written = str) -> None:
        super().check(written)
        check_sentence(self.sentence)


class Verify(Question):
    """How well an image supports each sentence of a report."""

    report: str = Field(
        max_length=MAX_REPORT_CHARACTERS,
        description="A report; its findings and impression are verified.",
        examples=["FINDINGS: Small left pleural effusion. No pneumothorax."],
    )
    threshold: Threshold = Field(default=None, description="As for a grounding.")


class Search(Question):
    """Which indexed images, or which sentences, fit sentences, an image or both."""

    query: Sentences = Field(
        default=(),
        description="A sentence that images should fit; several count by their mean score.",
        examples=[["Large right pneumothorax."]],
    )
    without: Sentences = Field(
        default=(),
        alias="not",
        description="A sentence that images should not fit.",
        examples=[["Chest tube."]],
    )
    image_weight: Annotated[float | None, Field(ge=0, le=1), DECIMAL] = Field(
        default=None, description="Weight of an image beside sentences; by default 0.5."
    )
    k: Annotated[int, Field(ge=1, le=MAX_RESULTS), WHOLE] = Field(
        default=10, description="How many to find."
    )
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET), WHOLE] = Field(
        default=0, description="How many of the best to skip."
    )
    target: Target = Field(default="images", description="What to find.")
    where: Annotated[str | None, Field(max_length=MAX_WHERE), BLANK] = Field(
        default=None, description=WHERE
    )
    min_score: Annotated[float | None, Field(ge=-2, le=2), DECIMAL] = Field(
        default=None, description="Leave out lower scores."
    )
    unique: Unique | None = Field(
        default=None, description="Only one result per patient, study or picture."
    )
    exclude_patient: Annotated[tuple[str, ...], Field(max_length=MAX_PATIENTS), SEVERAL] = Field(
        default=(), description="A patient to leave out."
    )
    other_patients: bool = Field(
        default=False, description="Leave out the patient of the image_id."
    )
    mode: Mode = Field(
        default="auto", description="exact proves the order; fast looks only at candidates."
    )
    as_written: bool = Field(
        default=False,
        description="Embed sentences as sent, not reworded as in the reports.",
    )

    def check(self, written: Written = str) -> None:
        self._one_source(written)
        has_image = self.image is not None or self.image_id is not None
        if not self.query and not has_image:
            raise InputError(f"give a query, {written('image')} or {written('image_id')}")
        for sentence in (*self.query, *self.without):
            check_sentence(sentence)
        if self.target == "sentences":
            self._check_target(has_image, written)
        if self.other_patients and self.image_id is None:
            raise InputError(
                f"{written('other_patients')} needs {written('image_id')}: a file does not say "
                "whose it is"
            )
        if self.image_weight is not None and not (self.query and has_image):
            raise InputError(f"{written('image_weight')} needs a query and an image")
        if self.as_written and not (self.query or self.without):
            raise InputError(f"{written('as_written')} needs a query")

    def _check_target(self, has_image: bool, written: Written) -> None:
        if self.query and (has_image or len(self.query) > 1):
            raise InputError("sentences are found by one sentence or by one image, not by both")
        of_images = {
            "not": self.without,
            "image_weight": self.image_weight is not None,
            "unique": self.unique,
            "exclude_patient": self.exclude_patient,
            "other_patients": self.other_patients,
            "mode": self.mode != "auto",
        }
        if wrong := [written(name) for name, value in of_images.items() if value]:
            raise InputError(f"{', '.join(wrong)}: only for a search for images, not for sentences")


Asked = TypeVar("Asked", bound=Question)


def ask(kind: type[Asked], given: Mapping[str, Any], written: Written = str) -> Asked:
    """A checked question from its fields (InputError, with fields named by ``written``)."""
    try:
        return kind.model_validate(given, context={"written": written})
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        message = fault["msg"].removeprefix("Value error, ")
        raise InputError(f"{written(str(fault['loc'][0]))}: {message}") from None
