"""The recipe of a project: what is made of an archive, and how; chosen by what is there.

``recipe.yaml`` holds it.  People may change it: the next ``cxrtext fit`` does again what rests on
the change.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cxrtext.config import template
from cxrtext.errors import ConfigError
from cxrtext.files import write_text
from cxrtext.files.yaml_text import parse_yaml
from cxrtext.project.facts import Facts
from cxrtext.project.layout import DATA, DECODED, RECIPE, RUN, THIRD

SMALL_SIDE = 200
"""Up to this shorter side, in pixels, images are taken for drawings and thumbnails."""
STEPS = ((600, 100), (10_000, 300), (None, 3000))
"""Steps of a training with a locked encoder, by the number of its studies (films.md)."""
LETTERS = 200_000
"""Of all reports: fewer do not fill the larger language model."""
LEAST_STEPS, STEPS_A_STUDY = 200, 0.3
"""Of small images, up to the demonstration's own: a few hundred are soon learned by heart."""
LEAST_FOR_CURVE = 200
"""Training studies, of which a third can be trained on at all."""
ADAPTER_STEPS, ADAPTER_RATE, ADAPTER_DECAY = 500, 1e-3, 0.1
"""Of the training of adapters over a finished pair."""
MOST_LONGER = 5
"""A budget is used for at most so many times the usual epochs: more was not seen to help."""

_ABOUT = """\
# What `cxrtext fit` made of this archive, and how. Change what you like and run the same command:
# what rests on the change is done again, nothing else. Paths are relative to this folder.
"""
_NOTES = {
    "source": "where the images and reports come from",
    "language_model": "how common a sentence is: compact or demo; epochs: null chooses",
    "image_encoder": "as options of cxrtext pretrain-image; epochs: null chooses by the number",
    "train": "a configuration of cxrtext train: cxrtext train --init writes one with comments",
    "learning_curve": "also train on a third of the patients, to tell what more films would bring",
    "retrain_from": "the models are kept until the archive has so many times the training studies",
    "threads": "of the image encoder and the training; another number gives other last digits",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Part):
    """What the user gave, paths absolute."""

    archive: str
    reports: str | None = None
    labels: str | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    model: str | None = None  # a finished one, instead of a training
    improve: bool = False  # train adapters over the finished one
    link: bool = False


class LanguageModel(_Part):
    size: Literal["compact", "demo"] = "compact"
    epochs: Annotated[int, Field(ge=1)] | None = None


class ImageEncoder(_Part):
    image: str
    resize: int
    crop: int
    weights: str | None = None
    epochs: Annotated[int, Field(ge=1)] | None = None


class Recipe(_Part):
    source: Source
    language_model: LanguageModel
    image_encoder: ImageEncoder
    train: dict[str, Any]
    learning_curve: bool = True
    retrain_from: Annotated[float, Field(ge=1)] = 1.1
    threads: Annotated[int, Field(ge=1)] = 1


def choose_recipe(
    source: Source, facts: Facts, weights: Path | None, threads: int, *, curve: bool = True
) -> Recipe:
    """The recipe for an archive: the preset of its size, or the demonstration's for small images.

    Source: docs/results/films.md.
    """
    if facts.side and facts.side <= SMALL_SIDE and weights is None:
        train = _preset("demo/train.yaml")
        few = max(LEAST_STEPS, round(STEPS_A_STUDY * facts.training))
        train["training"] = with_steps(train["training"], min(train["training"]["steps"], few))
        encoder = ImageEncoder(image="resnet-narrow", resize=128, crop=112)
        size: Literal["compact", "demo"] = "demo"
    else:
        train = _preset("studies-3000.yaml")
        steps = next(steps for most, steps in STEPS if most is None or facts.training <= most)
        train["training"] = with_steps(train["training"], steps)
        image = "resnet50-half" if weights else "resnet18"
        encoder = ImageEncoder(
            image=image, resize=256, crop=224, weights=str(weights.absolute()) if weights else None
        )
        size = "compact" if facts.letters >= LETTERS else "demo"
    train["data"] = {
        "manifest": f"{DATA}/manifest.csv",
        "sentences": "sentences.csv",
        "words": "image-encoder/words.txt",
        "resize": encoder.resize,
        "crop": encoder.crop,
        "cache": DECODED,
    }
    train["model"] |= {
        "image": encoder.image,
        "image_weights": "image-encoder/encoder.safetensors",
        "text": "language-model",
    }
    train["training"] |= {"prompts": "prompts.yaml"}
    train["out"] = RUN
    if source.model:
        train = adapting(train, source.model, facts.training)
    return Recipe(
        source=source,
        language_model=LanguageModel(size=size),
        image_encoder=encoder,
        train=train,
        learning_curve=curve and not source.model and facts.training >= LEAST_FOR_CURVE,
        threads=threads,
    )


def adapting(train: dict[str, Any], model: str, studies: int) -> dict[str, Any]:
    """The configuration of a training of adapters over a finished pair."""
    every = ADAPTER_STEPS // 10
    return {
        "data": {name: train["data"][name] for name in ("manifest", "sentences", "cache")},
        "model": {"init": model, "similarity": "global"},
        "objective": train["objective"],
        "training": {
            "steps": ADAPTER_STEPS,
            "batch": min(64, max(2, studies // 2)),
            "sentences": 4,
            "lr": ADAPTER_RATE,
            "weight_decay": ADAPTER_DECAY,
            "lock": ["image", "text"],
            "validate_every": every,
            "save_every": ADAPTER_STEPS,
            "best": "val/auc",
            "prompts": "prompts.yaml",
        },
        "out": train["out"],
    }


def with_steps(training: dict[str, Any], steps: int) -> dict[str, Any]:
    """The settings of a training with another number of steps; a short one stays locked."""
    dropped = ("unlock", "unlocked_lr") if training.get("unlock", 0) >= steps else ()
    every = min(training["validate_every"], max(1, steps // 2))
    kept = {name: value for name, value in training.items() if name not in dropped}
    return {**kept, "steps": steps, "validate_every": every, "save_every": every}


def third_of(train: dict[str, Any], folder: str) -> dict[str, Any]:
    """The configuration of the same training on a third of the patients, in a folder of its own."""
    encoder = f"{folder}/image-encoder"
    training = train["training"]
    return {
        **train,
        "training": with_steps(training, max(50, training["steps"] // 2)),
        "data": train["data"] | {"manifest": f"{DATA}/{THIRD}", "words": f"{encoder}/words.txt"},
        "model": train["model"] | {"image_weights": f"{encoder}/encoder.safetensors"},
        "out": f"{folder}/run",
    }


def _preset(name: str) -> dict[str, Any]:
    tree: dict[str, Any] = parse_yaml(template(name).encode())
    return tree


def write_recipe(folder: Path, recipe: Recipe) -> None:
    """Write a recipe as people read it, each part with what it means."""
    text = _ABOUT
    for name, value in recipe.model_dump(mode="json").items():
        text += f"\n# {_NOTES[name]}\n" + yaml.safe_dump(
            {name: value}, sort_keys=False, allow_unicode=True, width=100
        )
    write_text(folder / RECIPE, text)


def read_recipe(folder: Path) -> Recipe:
    """Read a project's recipe (ConfigError that names the key)."""
    path = folder / RECIPE
    try:
        return Recipe.model_validate(parse_yaml(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(f"{path}: {key}: {first['msg']}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
