"""The score from which on a region counts for the boxes, as a caller sets it."""

from typing import Annotated

from fastapi import Form

from cxrtext_api.numbers import DECIMAL

Threshold = Annotated[
    float | None,
    DECIMAL,
    Form(
        ge=-1,
        le=1,
        allow_inf_nan=False,
        description="From this score on a region counts for the boxes; by default halfway between "
        "the mean and the maximum.",
    ),
]
