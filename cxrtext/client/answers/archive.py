"""Answers about the indexed images."""

from typing import Annotated, Any, Literal

from pydantic import Field

from cxrtext.client.answers.parts import Answer, Count, Finite, Probability, example

IMAGE: dict[str, Any] = {
    "image_id": "p0007/s0012.png",
    "study_id": "s0012",
    "patient_id": "p0007",
    "split": "test",
    "width": 2500,
    "height": 3056,
    "metadata": {"view": "PA", "age": "61"},
}
DETAIL: dict[str, Any] = {
    **IMAGE,
    "report": [{"section": "findings", "sentence": "The heart is enlarged."}],
}
HIT: dict[str, Any] = {**IMAGE, "score": 0.58, "labels": {"Pneumothorax": 0.71}}


class Image(Answer):
    """An indexed image."""

    model_config = example(IMAGE)

    image_id: str
    study_id: str
    patient_id: str
    split: str
    width: int
    height: int
    metadata: dict[str, str]


class ImagePage(Answer):
    """Some of the indexed images, in the order in which they were indexed."""

    model_config = example({"total": 2500, "offset": 0, "limit": 1, "images": [IMAGE]})

    total: Annotated[Count, Field(description="Images that the filter leaves.")]
    offset: Count
    limit: Count
    images: list[Image]


class ReportSentence(Answer):
    """A sentence of a report."""

    section: str
    sentence: str


class ImageDetail(Image):
    """An indexed image with its study's report."""

    model_config = example(DETAIL)

    report: Annotated[
        list[ReportSentence], Field(description="Empty where the index holds no reports.")
    ]


class AddedImage(Answer):
    """An image that was added; of a key that may not read, nothing but what it sent."""

    model_config = example(DETAIL)

    image_id: str
    width: int
    height: int
    study_id: str | None = None
    patient_id: str | None = None
    split: Annotated[str | None, Field(description="Null for a key that may not read.")] = None
    metadata: dict[str, str]
    report: Annotated[
        list[ReportSentence] | None, Field(description="Null for a key that may not read.")
    ] = None


class ImageHit(Image):
    """An image found."""

    model_config = example(HIT)

    score: Annotated[
        Finite, Field(description="In [-1, 1]; in [-2, 2] where something was not to be found.")
    ]
    labels: Annotated[
        dict[str, Probability], Field(description="Zero-shot probabilities that the index keeps.")
    ] = Field(default_factory=dict)


class Column(Answer):
    """A column that filters can name."""

    model_config = example({"name": "age", "kind": "number", "least": 18, "most": 93})

    name: str
    kind: Literal["number", "text"]
    least: Finite | None = None
    most: Finite | None = None
    values: Annotated[
        list[str] | None, Field(description="The commonest values, at most 20, of a text.")
    ] = None


class Columns(Answer):
    """The columns that filters can name."""

    columns: list[Column]


class Deleted(Answer):
    """What was deleted."""

    model_config = example({"deleted": 2})

    deleted: Annotated[Count, Field(description="Images.")]
