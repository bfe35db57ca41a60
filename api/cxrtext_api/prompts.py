"""Prompts that a caller sends."""

from typing import TYPE_CHECKING, Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError

from cxrtext.errors import InputError
from cxrtext_api.schemas import Prompts

if TYPE_CHECKING:
    from cxrtext.evaluation import Prompts as ServicePrompts

MAX_FINDING_CHARACTERS = 200

FindingName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_FINDING_CHARACTERS),
]


def parse_prompts(text: str) -> dict[str, "ServicePrompts"]:
    """Read prompts from JSON.

    Raises:
        InputError: They are not of the form that the message shows; what was sent is not quoted.
    """
    from cxrtext.evaluation import Prompts as ServicePrompts

    try:
        entries = TypeAdapter(dict[FindingName, Prompts]).validate_json(text)
    except ValidationError:
        raise InputError(
            'prompts: expected JSON as {"finding": {"positive": ["…"], "negative": ["…"]}}, each '
            "list with at least one sentence"
        ) from None
    return {
        name: ServicePrompts(tuple(entry.positive), tuple(entry.negative))
        for name, entry in entries.items()
    }
