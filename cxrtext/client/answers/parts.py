"""What answers are made of."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Finite = Annotated[float, Field(allow_inf_nan=False)]
Score = Annotated[float, Field(ge=-1.001, le=1.001, description="A similarity, in [-1, 1].")]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Fingerprint = Annotated[str, Field(description="The model that answered.")]
Pair = tuple[Finite, Finite]
Quad = tuple[Finite, Finite, Finite, Finite]
Grid = Annotated[list[list[Score]], Field(description="Region scores, rows from the top.")]

FINGERPRINT = "770cc71e3be6cbaaa19a9d16751f7551ff122363903017e0fc0983bf1f0889e7"


class Answer(BaseModel):
    """An answer, or a part of one.

    It cannot be changed, and a field that is not known is left out, so that a client reads the
    answers of a newer server.
    """

    model_config = ConfigDict(frozen=True)


def example(value: dict[str, Any]) -> ConfigDict:
    """A model's configuration with an example of it, for the API's description."""
    return ConfigDict(frozen=True, json_schema_extra={"examples": [value]})
