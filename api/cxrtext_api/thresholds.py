"""The score from which on a region counts for the boxes, as a caller sets it."""

from typing import Annotated

from annotated_types import Ge, Le
from fastapi import Form

from cxrtext_api.numbers import DECIMAL

Threshold = Annotated[
    float | None,
    Ge(-1),
    Le(1),
    DECIMAL,
    Form(
        description="From this score on a region counts for the boxes; by default halfway between "
        "the mean and the maximum.",
    ),
]
