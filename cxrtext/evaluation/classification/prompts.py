"""Prompts for zero-shot classification: a positive and a negative one for each finding."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError
from cxrtext.files.yaml_text import parse_yaml


@dataclass(frozen=True, slots=True)
class Prompts:
    """Sentences that affirm a finding, and sentences that deny it."""

    positive: tuple[str, ...]
    negative: tuple[str, ...]


CHEX5_PROMPTS = {
    "Cardiomegaly": Prompts(("Cardiomegaly",), ("Heart size normal",)),
    "Edema": Prompts(("Pulmonary edema",), ("No pulmonary edema",)),
    "Pleural Effusion": Prompts(("Pleural effusions",), ("No pleural effusions",)),
    "Pneumonia": Prompts(("Findings suggesting pneumonia",), ("No signs of pneumonia",)),
    "Pneumothorax": Prompts(("Pneumothorax",), ("No pneumothorax",)),
}
"""The prompts of the CheX5 task (Wang et al. 2023)."""


def _phrases(path: Path, finding: str, side: str, value: object) -> tuple[str, ...]:
    phrases = [value] if isinstance(value, str) else value
    if (
        not isinstance(phrases, list)
        or not phrases
        or not all(isinstance(phrase, str) and phrase.strip() for phrase in phrases)
    ):
        raise DataError(f"{path}: {finding}: '{side}' needs a sentence, or a list of sentences")
    return tuple(phrases)


def read_yaml(path: Path) -> tuple[bytes, Any]:
    """The bytes of a YAML file written by people, and its content."""
    try:
        data = path.read_bytes()
        return data, parse_yaml(data)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def read_prompts(path: Path) -> dict[str, Prompts]:
    """Read prompts from a YAML file.

    ::

        Pneumonia:
          positive: [Findings suggesting pneumonia, Pneumonia]
          negative: No signs of pneumonia
    """
    _, tree = read_yaml(path)
    if not isinstance(tree, dict) or not tree:
        raise DataError(f"{path}: expected 'Finding: {{positive: …, negative: …}}' entries")
    prompts = {}
    for finding, entry in tree.items():
        if not isinstance(entry, dict) or set(entry) != {"positive", "negative"}:
            raise DataError(f"{path}: {finding}: expected the keys 'positive' and 'negative'")
        prompts[str(finding)] = Prompts(
            _phrases(path, finding, "positive", entry["positive"]),
            _phrases(path, finding, "negative", entry["negative"]),
        )
    return prompts
