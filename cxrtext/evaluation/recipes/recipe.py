"""A recipe: a YAML file that says which images a benchmark has, and how it is done.

Those of public sets lie in ``data/``.  A file of one's own is read likewise.
"""

import hashlib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.classification.prompts import Prompts, read_yaml
from cxrtext.evaluation.settings import SLICE_COLUMNS
from cxrtext.metrics.ranking import Uncertain

FOLDER = Path(__file__).with_name("data")

Text = str | tuple[str, ...]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KnownList(_Part):
    title: str
    count: int = Field(gt=0)
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    """Of the sorted names, a line feed after each; "" where none could be had."""
    source: str


class ImageList(_Part):
    listed: Literal["all", "test", "file"]
    """The images of the list: all of an imported manifest, those of its test split, or the names in
    a file, where the manifest does not tell them."""
    measured: Literal["listed", "test", "drawn"] = "listed"
    """Of the list: all, those of the test split, or those drawn by the SHA-256 of their study, by
    which others choose thresholds."""
    name: Literal["file", "stem", "tail"]
    """What is compared: an image's file name, without its ending, or its last three parts."""
    known: tuple[KnownList, ...] = Field(min_length=1)


class Phrasings(_Part):
    """Prompts of a side: phrases, or all combinations of parts of a phrase."""

    combine: tuple[tuple[str, ...], ...]

    def phrases(self) -> tuple[str, ...]:
        made = (" ".join(" ".join(parts).split()) for parts in product(*self.combine))
        return tuple(dict.fromkeys(made))


Side = Text | Phrasings


class Pair(_Part):
    positive: Side
    negative: Side


class PromptSet(_Part):
    """Prompts by finding; a text stands for both sides of a template."""

    source: str
    template: Pair = Pair(positive="{}", negative="no {}")
    findings: dict[str, str | Pair]
    more_than: int = 0
    """Findings that fewer of the images have, or as many, are left out."""

    def prompts(self) -> dict[str, Prompts]:
        return {
            name: Prompts(
                *(
                    tuple(phrase.format(word) for phrase in _phrases(side))
                    for side in (pair.positive, pair.negative)
                )
            )
            for name, entry in self.findings.items()
            for word, pair in [(entry, self.template) if isinstance(entry, str) else ("", entry)]
        }


class HowDone(_Part):
    uncertain: Uncertain = "ignore"
    slices: tuple[str, ...] = SLICE_COLUMNS


class Expected(_Part):
    """What the annotations of the measured images must hold."""

    positives: dict[str, int] = {}
    """Images by finding."""
    boxes: int | None = None


class RecipeFile(_Part):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    version: int = Field(ge=1)
    title: str
    layout: str
    """Of ``cxrtext import``."""
    get: str
    """Where the set is given out."""
    images: ImageList
    takes: tuple[Literal["labels", "boxes", "reports"], ...] = Field(min_length=1)
    """Tables that are measured."""
    blank: Literal["unknown", "absent"] = "unknown"
    """What a label that is left blank counts as."""
    prompts: PromptSet | None = None
    settings: HowDone = HowDone()
    primary: str
    """The one measure that the benchmark is about, named as for ``evaluate --primary``."""
    expected: Expected = Expected()
    keep: tuple[str, ...] = ()
    """Metadata of the set to import."""
    facts: tuple[str, ...] = ()
    """What the recipe rests on, with sources."""
    not_had: tuple[str, ...] = ()
    """What could not be verified."""


@dataclass(frozen=True, slots=True)
class Recipe:
    content: RecipeFile
    sha256: str
    text: str

    @property
    def name(self) -> str:
        return self.content.name

    @property
    def import_command(self) -> str:
        """The command that makes the data folder of the set."""
        keep = f" --keep {','.join(self.content.keep)}" if self.content.keep else ""
        return f"cxrtext import SET --layout {self.content.layout}{keep} --out DATA"

    @property
    def prompts(self) -> dict[str, Prompts]:
        return self.content.prompts.prompts() if self.content.prompts else {}


def _phrases(side: Side) -> tuple[str, ...]:
    if isinstance(side, Phrasings):
        return side.phrases()
    return (side,) if isinstance(side, str) else side


def recipe_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_recipe(name: str | Path) -> Recipe:
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = FOLDER / f"{name}.yaml"
        if str(name) not in recipe_names():
            known = ", ".join(recipe_names())
            raise ConfigError(f"no recipe '{name}'; there are {known}, or give a .yaml file")
    data, tree = read_yaml(path)
    try:
        content = RecipeFile.model_validate(tree)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        first = min(found, key=lambda one: one["type"] != "extra_forbidden")
        key = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: {key}: {first['msg']}; see `evaluate --recipe rsna`") from None
    return Recipe(content, hashlib.sha256(data).hexdigest(), data.decode("utf-8"))
