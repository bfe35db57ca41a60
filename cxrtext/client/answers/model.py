"""Answers about the server and what it has loaded."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cxrtext.client.answers.parts import Answer, Count, Fingerprint, Finite, Probability, example

Phrases = Annotated[list[str], Field(min_length=1)]


class Prompts(BaseModel):
    """The prompts of one finding; several phrasings are averaged.

    Args:
        positive: Sentences that say that the finding is there.
        negative: Sentences that say that it is not.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"positive": ["Rib fracture."], "negative": ["No rib fracture."]}]
        },
    )

    positive: Phrases
    negative: Phrases


class Access(Answer):
    """What the caller may do."""

    model_config = example({"key_id": "reading-room", "scopes": ["read"]})

    key_id: Annotated[str | None, Field(description="The caller's key; null without keys.")]
    scopes: list[str]


class TrainingInfo(Answer):
    """What the model was trained on, as its checkpoint notes it."""

    model_config = example(
        {
            "data": "08ba1e3a36434e78ff31f06ce1b1329ae4202f15045d35c057ef3b8da3d211d5",
            "studies": None,
            "objective": "dcl-eta-lm",
            "steps": 600,
            "date": None,
        }
    )

    data: Annotated[str | None, Field(description="SHA-256 of the training data's tables.")]
    studies: Count | None
    objective: str | None
    steps: Count | None
    date: str | None


class IndexInfo(Answer):
    """The loaded index."""

    model_config = example(
        {
            "images": 2500,
            "sentences": 6324,
            "candidates": "flat",
            "recall_at_10": 1.0,
            "exact_share": 0.0696,
        }
    )

    images: Count
    sentences: Annotated[Count, Field(description="Distinct ones.")]
    candidates: Annotated[
        str | None, Field(description="Kind of the structure that the fast search looks in.")
    ]
    recall_at_10: Annotated[
        Probability | None, Field(description="Share of the ten best that the fast search finds.")
    ]
    exact_share: Annotated[
        Finite | None, Field(description="Share of the images that an exact search scores.")
    ]


class MeasuredFinding(Answer):
    """How well a finding was told on images that the model did not see."""

    auc: Annotated[Probability, Field(description="Area under the ROC curve.")]
    low: Annotated[Probability, Field(description="Lower end of its 95 % interval.")]
    high: Probability
    calibration_error: Annotated[
        Probability | None, Field(description="Expected error of the calibrated probability.")
    ]


class EvaluationInfo(Answer):
    """What ``cxrtext evaluate --calibrate`` measured."""

    model_config = example(
        {
            "split": "test",
            "images": 251,
            "findings": {
                "Edema": {"auc": 0.951, "low": 0.912, "high": 0.981, "calibration_error": 0.062}
            },
        }
    )

    split: str
    images: Count
    findings: dict[str, MeasuredFinding]


class LimitInfo(Answer):
    """What a request may ask for at most."""

    max_body_bytes: int
    max_results: int
    max_prompts: int
    max_sentence_characters: int
    max_report_characters: int
    max_sentences: Annotated[int, Field(description="Of POST /v1/score-text.")]


class ModelInfo(Answer):
    """What is loaded."""

    version: Annotated[str, Field(description="Of cxrtext.")]
    model: Fingerprint
    image_encoder: str
    text_encoder_layers: int
    similarity: str
    dimension: int
    gamma_sq: Finite
    resize: int
    crop: int
    prompts: Annotated[dict[str, Prompts], Field(description="Of the findings, in their order.")]
    calibrated: Annotated[bool, Field(description="Whether the checkpoint has a calibration.")]
    has_index: bool
    has_language_model: Annotated[bool, Field(description="Whether /v1/score-text answers.")]
    takes_images: Annotated[bool, Field(description="Whether images can be added.")]
    images: Annotated[Count, Field(description="Indexed images.")]
    sentences: Annotated[Count, Field(description="Distinct indexed sentences.")]
    columns: Annotated[Count, Field(description="Columns that filters can name.")]
    exact: Annotated[bool, Field(description="Whether a search without a mode is exact.")]
    index: IndexInfo | None
    access: Access
    trained: TrainingInfo | None
    measured: Annotated[
        dict[str, Finite] | None, Field(description="Of the validation images, at the end of it.")
    ]
    evaluated: Annotated[
        EvaluationInfo | None, Field(description="Null until the checkpoint is calibrated.")
    ] = None
    limits: LimitInfo
    max_body_bytes: Annotated[int, Field(description="Largest request.")]
    notice: str = "Research use only. Not a medical device."


class Health(Answer):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(Answer):
    """The model is loaded.

    Args:
        status: That questions are answered.
        writes: Whether what is added or deleted can be kept; None where the server keeps nothing.
    """

    status: Literal["ready"] = "ready"
    writes: bool | None = None
