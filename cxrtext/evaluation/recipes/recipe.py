"""A recipe: a YAML file that says which images a benchmark has, and how it is done.

Recipes for public sets are in ``data/``.  Your own files are read the same way.
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
    """Digest of the sorted names, with a line feed after each; "" if they are not available."""
    source: str


class ImageList(_Part):
    listed: Literal["all", "test", "file"]
    """The images of the list: all of an imported manifest, its test split, or the names in a file
    if the manifest does not tell them."""
    measured: Literal["listed", "test", "drawn"] = "listed"
    """Which of them are measured: all, the test split, or those drawn by the SHA-256 of their
    study, which also draws others to choose thresholds."""
    name: Literal["file", "stem", "tail"]
    """What is compared: an image's file name, the name without its suffix, or its last three
    path parts."""
    known: tuple[KnownList, ...] = Field(min_length=1)


class Phrasings(_Part):
    """Prompts for one side: all combinations of parts of a phrase."""

    combine: tuple[tuple[str, ...], ...]

    def phrases(self) -> tuple[str, ...]:
        phrases = (" ".join(" ".join(parts).split()) for parts in product(*self.combine))
        return tuple(dict.fromkeys(phrases))


Side = Text | Phrasings


class Pair(_Part):
    positive: Side
    negative: Side


class PromptSet(_Part):
    """Prompts by finding; a text fills both sides of the template."""

    source: str
    template: Pair = Pair(positive="{}", negative="no {}")
    findings: dict[str, str | Pair]
    more_than: int = 0
    """A finding is left out unless more images than this have it."""

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
    """What the annotations of the measured images must contain."""

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
    """Where to get the set."""
    images: ImageList
    takes: tuple[Literal["labels", "boxes", "reports"], ...] = Field(min_length=1)
    """Tables that are measured."""
    blank: Literal["unknown", "absent"] = "unknown"
    """What a blank label counts as."""
    prompts: PromptSet | None = None
    settings: HowDone = HowDone()
    primary: str
    """The benchmark's main measure, named as for ``evaluate --primary``."""
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
        errors = error.errors(include_url=False, include_context=False)
        first = min(errors, key=lambda each: each["type"] != "extra_forbidden")
        key = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: {key}: {first['msg']}; see `evaluate --recipe rsna`") from None
    return Recipe(content, hashlib.sha256(data).hexdigest(), data.decode("utf-8"))
