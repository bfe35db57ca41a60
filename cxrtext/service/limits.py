"""What a service lets itself be asked."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cxrtext.errors import InputError

if TYPE_CHECKING:  # the client, too, reads the limits, and has pydantic alone
    from cxrtext.evaluation import Prompts

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


def check_sentence(sentence: str) -> None:
    """Refuse a sentence that is empty or too long (InputError)."""
    if not any(character.isalnum() for character in sentence):
        raise InputError("the sentence is empty; give one such as 'Left pleural effusion.'")
    if len(sentence) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the sentence has {len(sentence)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )


def check_prompts(prompts: "Mapping[str, Prompts]") -> None:
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


_OF_IMAGES = ("not", "image_weight", "unique", "exclude_patient", "other_patients", "mode")
"""What means nothing in a search for sentences, as the API names it."""


def check_search(asked: Mapping[str, Any], written: Callable[[str], str] = str) -> None:
    """Refuse a search that asks nothing, or of which a part would be ignored (InputError).

    ``asked`` has the fields of the API's form; None, False, no sentences and mode "auto" count as
    left out.  ``written`` writes a field's name as the user knows it.
    """
    names = {
        name
        for name, value in asked.items()
        if value is not None and value is not False and value not in ((), [], "auto")
    }
    sources = names & {"image", "image_id"}
    if len(sources) > 1:
        raise InputError(f"give either {written('image')} or {written('image_id')}, not both")
    if "query" not in names and not sources:
        raise InputError(f"give a query, {written('image')} or {written('image_id')}")
    if asked["target"] == "sentences":
        if "query" in names and (sources or len(asked["query"]) > 1):
            raise InputError("sentences are found by one sentence or by one image, not by both")
        if wrong := [written(name) for name in _OF_IMAGES if name in names]:
            raise InputError(f"{', '.join(wrong)}: only for a search for images, not for sentences")
    if "other_patients" in names and "image_id" not in names:
        raise InputError(
            f"{written('other_patients')} needs {written('image_id')}: a file does not say whose "
            "it is"
        )
    if "image_weight" in names and not ("query" in names and sources):
        raise InputError(f"{written('image_weight')} needs a query and an image")
    if "as_written" in names and not names & {"query", "not"}:
        raise InputError(f"{written('as_written')} needs a query")


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
