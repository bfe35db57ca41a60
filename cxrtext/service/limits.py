"""Limits of the questions to a service."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from cxrtext.errors import InputError

Target = Literal["images", "sentences"]
Unique = Literal["patient", "study", "picture"]
Mode = Literal["auto", "exact", "fast"]
"""What a search finds, what gets only one hit, and whether the order is proven."""

MAX_QUERY_CHARACTERS = 2_000
MAX_PROMPTS = 64
MAX_RESULTS = 1_000
MAX_REPORT_CHARACTERS = 20_000
MAX_REPORT_SENTENCES = 256

MAX_ID_CHARACTERS = 4096
MAX_WHERE = 10_000
MAX_OFFSET = 10_000
MAX_QUERIES = 16
MAX_PATIENTS = 64
MAX_FINDING_CHARACTERS = 200

UNLIKE_IMAGE = "is unlike those that the model was trained on; its answers mean little"
UNLIKE_SENTENCE = (
    "resembles nothing in the reports that the model was trained on; what it finds means little"
)
"""What a warning says after the name of a flagged image or sentence."""


class Sides(Protocol):
    """The prompts of one finding."""

    @property
    def positive(self) -> Sequence[str]: ...
    @property
    def negative(self) -> Sequence[str]: ...


def check_sentence(sentence: str) -> None:
    """Refuse a sentence that is empty or too long (InputError)."""
    if not any(character.isalnum() for character in sentence):
        raise InputError("the sentence is empty; give one such as 'Left pleural effusion.'")
    if len(sentence) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the sentence has {len(sentence)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )


def check_prompts(prompts: Mapping[str, Sides]) -> None:
    """Refuse too many prompts, or one that is empty or too long (InputError)."""
    phrases = [p for entry in prompts.values() for p in (*entry.positive, *entry.negative)]
    if not phrases or len(phrases) > MAX_PROMPTS:
        raise InputError(f"{len(phrases)} prompts; give between 1 and {MAX_PROMPTS}")
    for phrase in phrases:
        check_sentence(phrase)
