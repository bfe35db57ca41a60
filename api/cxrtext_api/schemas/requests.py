"""Bodies of requests that are JSON."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_SENTENCES = 256
MAX_SENTENCE_CHARACTERS = 2_000


class ScoreTextRequest(BaseModel):
    """Sentences to score.

    Args:
        sentences: The sentences.
        a: Scale of the class probability.
        k: Exponent on the likelihood.
    """

    model_config = ConfigDict(
        strict=True,  # neither true nor "0.3" is a number
        json_schema_extra={
            "examples": [{"sentences": ["The lungs are clear.", "Left pleural effusion."]}]
        },
    )

    sentences: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_SENTENCE_CHARACTERS)]],
        Field(min_length=1, max_length=MAX_SENTENCES),
    ]
    a: Annotated[float, Field(gt=0, lt=1)] = 0.2
    k: Annotated[float, Field(ge=0, le=10)] = 0.35
