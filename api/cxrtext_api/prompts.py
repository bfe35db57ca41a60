"""Prompts that a caller sends."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError

from cxrtext.client.answers import Prompts
from cxrtext.errors import InputError

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
        InputError: They are not of the form that the message shows, or are too many or too long;
            what was sent is not quoted.
    """
    from cxrtext.evaluation import Prompts as ServicePrompts
    from cxrtext.service.limits import check_prompts

    try:
        entries = TypeAdapter(dict[FindingName, Prompts]).validate_json(text)
    except ValidationError:
        raise InputError(
            'prompts: expected JSON as {"finding": {"positive": ["…"], "negative": ["…"]}}, each '
            "list with at least one sentence"
        ) from None
    prompts = {
        name: ServicePrompts(tuple(entry.positive), tuple(entry.negative))
        for name, entry in entries.items()
    }
    check_prompts(prompts)
    return prompts


def phrases_of(prompts: Mapping[str, "ServicePrompts"]) -> list[str]:
    """Every phrase of some prompts."""
    return [phrase for side in prompts.values() for phrase in (*side.positive, *side.negative)]
