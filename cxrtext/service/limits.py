"""What a service lets itself be asked."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from cxrtext.errors import InputError

Target = Literal["images", "sentences"]
Unique = Literal["patient", "study", "picture"]
Mode = Literal["auto", "exact", "fast"]
"""What a search finds, of what it gives one hit, and whether its order is proven."""

MAX_QUERY_CHARACTERS = 2_000
MAX_PROMPTS = 64
MAX_RESULTS = 1_000
MAX_REPORT_CHARACTERS = 20_000
MAX_REPORT_SENTENCES = 256

TURN_MULTIPLICATIONS = 10**9
"""Of a language model between two pauses: some hundredths of a second."""

UNLIKE_IMAGE = "is unlike those that the model was trained on; its answers mean little"
UNLIKE_SENTENCE = (
    "resembles nothing in the reports that the model was trained on; what it finds means little"
)
"""What is said, behind its name, of an image or a sentence that is flagged."""

TURN_TOKENS = 128, 4096
"""Fewest and most tokens that a language model takes at once; with fewer it is no quicker."""


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
    """Refuse prompts that are too many, or of which one is empty or too long (InputError)."""
    phrases = [p for entry in prompts.values() for p in (*entry.positive, *entry.negative)]
    if not phrases or len(phrases) > MAX_PROMPTS:
        raise InputError(f"{len(phrases)} prompts; give between 1 and {MAX_PROMPTS}")
    for phrase in phrases:
        check_sentence(phrase)


def tokens_a_turn(multiplications: int) -> int:
    """Tokens that a language model takes between two pauses."""
    low, high = TURN_TOKENS
    return max(low, min(high, TURN_MULTIPLICATIONS // max(1, multiplications)))


def check_count(k: int) -> None:
    """Refuse a number of results that is out of range (InputError)."""
    if not 1 <= k <= MAX_RESULTS:
        raise InputError(f"{k} results asked for; give between 1 and {MAX_RESULTS}")


def check_query(
    sentences: Sequence[str], without: Sequence[str], image_weight: float | None
) -> None:
    """Refuse a query whose weight is out of range, or whose sentences are wrong or too many."""
    if image_weight is not None and not 0 <= image_weight <= 1:
        raise InputError(f"image weight {image_weight}; give a number between 0 and 1")
    for some, what in ((sentences, "to fit"), (without, "not to fit")):
        if len(some) > MAX_PROMPTS:
            raise InputError(f"{len(some)} sentences {what}; give at most {MAX_PROMPTS}")
        for sentence in some:
            check_sentence(sentence)
