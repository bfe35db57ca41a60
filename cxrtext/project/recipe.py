"""The recipe of a project: what to make from an archive, and how, chosen by what the archive holds.

``recipe.yaml`` holds it.  People may change it: the next ``cxrtext fit`` repeats what depends on
the change.  Where a stage writes is not a setting.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from cxrtext.config import SHOWN, TrainingSection, check_config, template
from cxrtext.errors import ConfigError
from cxrtext.files import open_regular, write_text
from cxrtext.files.yaml_text import parse_yaml
from cxrtext.models.folders import is_hub_name
from cxrtext.project.encoders import GivenEncoder, copy_of
from cxrtext.project.facts import Facts
from cxrtext.project.layout import DATA, DECODED, FEATURES, PROMPTS, RECIPE, RUN, THIRD
from cxrtext.training.image_pretraining.settings import ImagePretrainSettings, check_settings

SMALL_SIDE = 200
"""Images with a shorter side up to this many pixels count as drawings or thumbnails."""
STEPS = ((600, 200), (10_000, 400), (None, 3000))
"""The most steps of a training with a locked encoder, by the number of its studies (films.md); the
model that was best on validation films is kept."""
LETTERS = 200_000
"""With fewer letters in all reports, the larger language model is not worth it."""
LEAST_STEPS, STEPS_A_STUDY = 200, 0.15
"""For small images, up to the demonstration's own steps: a few hundred are soon memorized."""
LEAST_FOR_CURVE = 200
"""With fewer training studies, a third of them is too few to train on."""
MOST_LONGER = 5
"""A budget buys at most this many times the usual epochs: more was not seen to help."""

_ABOUT = """\
# What `cxrtext fit` makes from this archive, and how. Change what you like and run the same
# command: only what depends on the change is done again. Paths are relative to this folder.
"""
_NOTES = {
    "source": "where the images and reports come from",
    "language_model": "how common a sentence is: compact or demo; epochs: null chooses",
    "image_encoder": "options of cxrtext pretrain-image (epochs: null chooses by the number); for "
    "an encoder\n# from elsewhere that is not tuned, crop is the --size of cxrtext encode",
    "train": "settings of cxrtext train, without places: cxrtext train --init writes all of them",
    "learning_curve": "also train on a third of the patients, to tell what more films would bring",
    "retrain_from": "keep the models until the archive has this many times the training studies",
    "threads": "for the image encoder and the training; another number gives other last digits",
}


_PLACES = {
    "data.manifest": f"{DATA}/manifest.csv",
    "data.sentences": "sentences.csv",
    "data.words": "image-encoder/words.txt",
    "data.findings": "findings.csv",
    "data.cache": DECODED,
    "model.image_weights": "image-encoder/encoder.safetensors",
    "training.prompts": PROMPTS,
    "out": RUN,
}
"""The places of the training, which a recipe does not choose."""
_OF_ENCODER = ("data.words", "model.image_weights")
"""Places only a trained image encoder has, not a frozen one or a finished model."""
_OF_TRAINING = ("data.findings",)
"""Places that a finished model does not have."""
_OF_IMAGES = {"data": ("resize", "crop"), "training": ("unlock", "unlocked_lr")}
"""Settings of the training that mean nothing if films are features."""


def _absolute(path: str) -> str:
    if not Path(path).is_absolute():
        raise ValueError("give an absolute path")
    return path


def _encoder(name: str) -> str:
    if not (Path(name).is_absolute() or is_hub_name(name)):
        raise ValueError("give an absolute path, or a name of the hub such as owner/model")
    return name


Absolute = Annotated[str, AfterValidator(_absolute)]
EncoderName = Annotated[str, AfterValidator(_encoder)]
Epochs = Annotated[int, Field(ge=1, le=100_000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Source(_Part):
    """What the user gave, with absolute paths."""

    archive: Absolute
    reports: Absolute | None = None
    labels: Absolute | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    ids: Literal["exact", "loose"] = "exact"
    follow_links: bool = False
    model: Absolute | None = None  # a finished model instead of a training
    link: bool = False


class LanguageModel(_Part):
    size: Literal["compact", "demo"] = "compact"
    epochs: Epochs | None = None


class ImageEncoder(_Part):
    image: str
    resize: Annotated[int, Field(le=8192)]
    crop: int
    epochs: Epochs | None = None
    encoder: EncoderName | None = None  # from elsewhere
    tune: bool = False  # whether that encoder is trained further

    def options(self, project: Path) -> dict[str, Any]:
        """The options of ``pretrain-image``, with the project's copy of the encoder."""
        weights = copy_of(project, self.encoder) if self.encoder else None
        own = {name: getattr(self, name) for name in ("image", "resize", "crop", "epochs")}
        return {**own, "weights": weights}

    def settings(self) -> ImagePretrainSettings:
        return ImagePretrainSettings(**self.options(Path()))


class Recipe(_Part):
    source: Source
    language_model: LanguageModel
    image_encoder: ImageEncoder
    train: dict[str, Any]  # a configuration without its places
    learning_curve: bool = True
    retrain_from: Annotated[float, Field(ge=1)] = 1.1
    threads: Annotated[int, Field(ge=1, le=1024)] = 1

    @property
    def frozen(self) -> str | None:
        """The encoder from elsewhere that stays as it is; films pass through it once."""
        encoder = self.image_encoder
        return None if encoder.tune or self.source.model else encoder.encoder

    def config(self) -> dict[str, Any]:
        """The configuration of the training, as plain values, with its places (ConfigError)."""
        places, model = _PLACES, self.source.model
        if model or self.frozen:
            without = (*_OF_ENCODER, *(_OF_TRAINING if model else ()))
            places = {key: at for key, at in places.items() if key not in without}
            places |= {"model.init": model} if model else {"data.features": FEATURES}
        tree = {name: {**x} if isinstance(x, dict) else x for name, x in self.train.items()}
        if self.frozen:
            tree = _without_images(tree)
        for key, place in places.items():
            name, _, last = key.rpartition(".")
            section = tree.setdefault(name, {}) if name else tree
            if not isinstance(section, dict):
                continue  # refused later with everything that is no section
            if (given := section.get(last)) not in (None, place):
                raise ConfigError(
                    f"train.{key}: {repr(given)[:SHOWN]}: 'cxrtext fit' chooses this place itself "
                    f"({place}); take the key out"
                )
            section[last] = place
        if isinstance(training := tree["training"], dict):  # estimates need its length
            for name in ("steps", "validate_every"):
                training.setdefault(name, TrainingSection.model_fields[name].default)
        return tree

    def check(self) -> None:
        """Refuse settings that no stage can run with (ConfigError)."""
        check_config(self.config(), "train")
        if self.frozen or self.source.model:
            return
        if self.image_encoder.tune and not self.image_encoder.encoder:
            raise ConfigError("image_encoder.tune: true: there is no encoder to tune; name one")
        try:
            check_settings(self.image_encoder.settings())
        except ConfigError as error:
            raise ConfigError(f"image_encoder.{error}") from None


def _without_images(tree: dict[str, Any]) -> dict[str, Any]:
    """A configuration for features: without settings for images and the words they teach."""
    sections = {name: value for name, value in tree.items() if isinstance(value, dict)}
    for name, keys in _OF_IMAGES.items():
        for key in keys:
            sections.get(name, {}).pop(key, None)
    if "model" in sections:
        sections["model"]["image"] = "backbone"
    if isinstance(weights := sections.get("training", {}).get("section_weights"), dict):
        kept = {name: weight for name, weight in weights.items() if name != "words"}
        sections["training"]["section_weights"] = kept
    return {**tree, **sections}


def choose_recipe(
    source: Source,
    facts: Facts,
    given: GivenEncoder | None,
    threads: int,
    *,
    curve: bool = True,
) -> Recipe:
    """The recipe for an archive: the preset for its size, or the demonstration's for small images.

    A given ResNet is trained further, any other encoder stays as it is.
    Source: docs/results/films.md.
    """
    if facts.side and facts.side <= SMALL_SIDE and given is None:
        train = _preset("demo/train.yaml")
        few = max(LEAST_STEPS, round(STEPS_A_STUDY * facts.training))
        train["training"] = with_steps(train["training"], min(train["training"]["steps"], few))
        encoder = ImageEncoder(image="resnet-narrow", resize=128, crop=112)
        size: Literal["compact", "demo"] = "demo"
    else:
        train = _preset("studies-3000.yaml")
        steps = next(steps for most, steps in STEPS if most is None or facts.training <= most)
        train["training"] = with_steps(train["training"] | {"validate_every": 25}, steps)
        encoder = ImageEncoder(image="resnet18", resize=256, crop=224)
        if given is not None:
            tuned, own = given.image != "backbone", given.backbone.preprocessing
            encoder = ImageEncoder(
                image=given.image,
                resize=encoder.resize if tuned else own.resize,
                crop=encoder.crop if tuned else own.crop,
                encoder=given.name,
                tune=tuned,
            )
        size = "compact" if facts.letters >= LETTERS else "demo"
    train["training"]["best"] = "auto"
    train["training"]["batch"] = min(train["training"]["batch"], max(2, facts.training // 2))
    train["data"] = {"resize": encoder.resize, "crop": encoder.crop}
    train["model"] |= {"image": encoder.image, "text": "language-model"}
    return Recipe(
        source=source,
        language_model=LanguageModel(size=size),
        image_encoder=encoder,
        train=train,
        learning_curve=curve and not source.model and facts.training >= LEAST_FOR_CURVE,
        threads=threads,
    )


def with_steps(training: dict[str, Any], steps: int) -> dict[str, Any]:
    """The settings of a training with ``steps`` steps; a short one stays locked."""
    dropped = ("unlock", "unlocked_lr") if (training.get("unlock") or 0) >= steps else ()
    every = min(training["validate_every"], max(1, steps // 2))
    kept = {name: value for name, value in training.items() if name not in dropped}
    saved = max(every, min(LEAST_STEPS, steps // 2))
    return {**kept, "steps": steps, "validate_every": every, "save_every": saved}


def third_of(train: dict[str, Any], folder: str) -> dict[str, Any]:
    """The same configuration on a third of the patients, in its own folder.

    It trains its own encoder, unless the encoder is frozen.
    """
    training, data, model = train["training"], train["data"], train["model"]
    if "features" not in data:
        data = data | {"words": f"{folder}/image-encoder/words.txt"}
        model = model | {"image_weights": f"{folder}/image-encoder/encoder.safetensors"}
    return {
        **train,
        "training": with_steps(training, max(50, training["steps"] // 2)),
        "data": data | {"manifest": f"{DATA}/{THIRD}"},
        "model": model,
        "out": f"{folder}/run",
    }


def _preset(name: str) -> dict[str, Any]:
    """The settings of a configuration, without its places."""
    tree = parse_yaml(template(name).encode())
    return {
        name: {key: value for key, value in tree[name].items() if f"{name}.{key}" not in _PLACES}
        for name in ("model", "objective", "training")
    }


def write_recipe(folder: Path, recipe: Recipe) -> None:
    """Write a recipe for people to read, with an explanation of each part."""
    text = _ABOUT
    for name, value in recipe.model_dump(mode="json").items():
        text += f"\n# {_NOTES[name]}\n" + yaml.safe_dump(
            {name: value}, sort_keys=False, allow_unicode=True, width=100
        )
    write_text(folder / RECIPE, text)


def read_recipe(folder: Path) -> Recipe:
    """Read and check a project's whole recipe (ConfigError that names key and value)."""
    path = folder / RECIPE
    try:
        with open_regular(path) as handle:
            recipe = Recipe.model_validate(parse_yaml(handle.read()))
        recipe.check()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_of(error)}") from None
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return recipe


def _first_of(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    key = repr(".".join(map(str, first["loc"])) or "the file")[1:-1]
    if first["type"] == "extra_forbidden":
        return f"{key}: no such key; take it out"
    if first["type"] == "missing":
        return f"{key}: is missing; remove the file, and 'cxrtext fit' writes it again"
    reason = first["msg"].removeprefix("Value error, ")
    return f"{key}: {repr(first['input'])[:SHOWN]}: {reason[0].lower()}{reason[1:]}"
