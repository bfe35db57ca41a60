"""What a run cannot know: questions to the author, by name, and the answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from cxrtext.errors import DataError
from cxrtext.evaluation.classification.prompts import read_yaml

TEXTS = Path(__file__).parent / "texts"
MUST = "**The author must write:**"
"""What an open question begins with."""


@cache
def all_questions() -> Mapping[str, str]:
    found: dict[str, str] = yaml.safe_load((TEXTS / "questions.yaml").read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True, slots=True)
class Questions:
    answers: Mapping[str, str] = field(default_factory=dict)

    def answer(self, name: str) -> str:
        if name not in all_questions():
            raise KeyError(f"there is no question '{name}'")
        return " ".join(self.answers.get(name, "").split())

    def ask(self, name: str) -> str:
        """The answer, or the question as one that is open."""
        return self.answer(name) or f"{MUST} {all_questions()[name]}"

    def form(self) -> str:
        lines = [
            "# Write your answers between the quotes, save the file elsewhere, and give it with",
            "# 'cxrtext evaluate ... --answers FILE': the documents are made anew with them.",
        ]
        for name, question in all_questions().items():
            answer = yaml.safe_dump(self.answer(name), width=10_000, allow_unicode=True)
            value = answer.removesuffix("\n...\n").strip() if self.answer(name) else '""'
            lines += ["", f"# {question}", f"{name}: {value}"]
        return "\n".join(lines) + "\n"


def read_answers(path: Path) -> dict[str, str]:
    """Read answers by the names of the questions; empty ones are open."""
    _, tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise DataError(
            f"{path}: expected lines 'question: answer', as documents/questions.yaml has"
        )
    for name, answer in tree.items():
        if name not in all_questions():
            raise DataError(
                f"{path}: there is no question '{name}'; the names are those of "
                "documents/questions.yaml"
            )
        if not (answer is None or isinstance(answer, str)):
            raise DataError(f"{path}: {name}: an answer is a text; put it between quotes")
    return {name: answer for name, answer in tree.items() if answer}
