"""The training configuration: one YAML file and repeatable ``section.key=value`` overrides.

Only the outermost functions see these objects; everything below takes plain arguments.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cxrtext.errors import ConfigError

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A frozen section that knows no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataSection(Section):
    """Where the data lie and how images are prepared."""

    manifest: Path
    sentences: Path
    sections: tuple[str, ...] | None = None
    resize: Positive = 512
    crop: Positive = 480
    allow_outside: bool = False
    max_rejected: Annotated[int, Field(ge=0)] = 100

    @model_validator(mode="after")
    def _crop_fits(self) -> "DataSection":
        if self.crop > self.resize:
            raise ValueError(f"crop {self.crop} is larger than resize {self.resize}")
        return self


class ModelSection(Section):
    """What the model is made of."""

    image: Literal["resnet18", "resnet50", "resnet-narrow"] = "resnet18"
    text: str = "microsoft/BiomedVLP-CXR-BERT-general"
    dimension: Positive = 128
    similarity: Literal["global", "max", "lse", "nl", "lse+nl"] = "lse+nl"
    lam: Annotated[float, Field(gt=0)] = 10.0
    query: bool = True
    gamma_sq: Annotated[float, Field(gt=0, le=100)] = 14.0
    max_tokens: Annotated[int, Field(ge=8, le=512)] = 96


class ObjectiveSection(Section):
    """The loss."""

    name: Literal["dcl-eta-lm", "dcl-eta", "info-nce"] = "dcl-eta-lm"
    eta: Annotated[float, Field(gt=0, lt=1)] = 0.05
    symmetric: bool = False


class TrainingSection(Section):
    """The recipe; the defaults are the paper's, but for the number of steps."""

    steps: Positive = 20_000
    batch: Annotated[int, Field(ge=2)] = 64
    sentences: Positive = 1
    lr: Annotated[float, Field(gt=0)] = 1e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Annotated[int, Field(ge=0)] = 2_000
    clip: Annotated[float, Field(gt=0)] = 1.0
    brightness: Share = 0.1
    contrast: Share = 0.1
    seed: Annotated[int, Field(ge=0)] = 0
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    log_every: Positive = 20
    validate_every: Positive = 500
    save_every: Positive = 500


class Config(Section):
    """The whole configuration of a training run."""

    data: DataSection
    model: ModelSection = ModelSection()
    objective: ObjectiveSection = ObjectiveSection()
    training: TrainingSection = TrainingSection()
    out: Path = Path("runs/default")


def parse_override(text: str) -> tuple[list[str], Any]:
    """Read ``section.key=value``; the value is YAML, with ``1e-4`` a number.

    Raises:
        ConfigError: There is no "=" or no key, or the value is not YAML.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: expected section.key=value, such as training.lr=1e-4")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {text}: the value is not readable YAML") from None
    return key.strip().split("."), parsed


def _set(tree: dict[str, Any], keys: list[str], value: Any, text: str) -> None:
    for key in keys[:-1]:
        child = tree.setdefault(key, {})
        if not isinstance(child, dict):
            raise ConfigError(f"--set {text}: '{key}' is a value, not a section")
        tree = child
    tree[keys[-1]] = value


def _message(source: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{source}: there is no key '{key}'; 'cxrtext train --init' writes all keys"
    if first["type"] == "missing":
        return f"{source}: key '{key}' is missing; give it there or with --set {key}=…"
    reason = first["msg"].removeprefix("Value error, ")
    where = f"{key}: {first['input']!r}: " if not isinstance(first["input"], dict) else f"{key}: "
    return f"{source}: {where}{reason[0].lower()}{reason[1:]}"


def _read_tree(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; 'cxrtext train --init' writes a configuration"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"{path}: {where}not readable YAML") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected sections of key: value, such as data: and training:")
    return tree


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration file, then apply overrides.

    Paths in the file are taken relative to the file, paths in overrides to the working folder.

    Args:
        path: A YAML file; None starts from the defaults.
        overrides: ``section.key=value`` each.

    Returns:
        The frozen configuration, with every default filled in.

    Raises:
        ConfigError: The file is unreadable, or a key is unknown, missing or out of range.
    """
    tree = {} if path is None else _read_tree(path)
    if path is not None:
        _anchor_paths(tree, path.parent)
    for text in overrides:
        keys, value = parse_override(text)
        _set(tree, keys, value, text)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_message(str(path) if path else "--set", error)) from None


def _anchor_paths(tree: dict[str, Any], folder: Path) -> None:
    data = tree.get("data")
    for section, key in ((data, "manifest"), (data, "sentences"), (tree, "out")):
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = str(folder / section[key])
    # A text model is a hub id or a folder; only what names a folder there is a path.
    model = tree.get("model")
    if isinstance(model, dict) and isinstance(model.get("text"), str):
        local = folder / model["text"]
        if local.is_dir():
            model["text"] = str(local)


TEMPLATE = """\
# cxrtext training configuration. Paths are relative to this file; every key can also be given
# as --set section.key=value. Unknown keys are refused.
data:
  manifest: manifest.csv        # image, study_id, patient_id, split, ...
  sentences: sentences.csv      # from: cxrtext score-text reports.csv
  # sections: [findings, impression]   # train on these sections only
  resize: 512                   # shorter side of the decoded cache, in pixels
  crop: 480                     # random crop in training, centre crop elsewhere
  max_rejected: 100             # images that may fail to decode before the run stops
model:
  image: resnet18               # resnet18, resnet50, or resnet-narrow (small images on a CPU)
  text: microsoft/BiomedVLP-CXR-BERT-general   # hub id, or a folder (cxrtext pretrain-text)
  dimension: 128
  similarity: lse+nl            # global, max, lse, nl, lse+nl
  lam: 10.0                     # sharpness of the soft maximum over regions
  gamma_sq: 14.0                # initial scale of the scores; learned
objective:
  name: dcl-eta-lm              # dcl-eta-lm, dcl-eta (one eta for all), info-nce
  eta: 0.05                     # for dcl-eta
  symmetric: false              # also contrast images against sentences
training:
  steps: 20000
  batch: 64                     # images a step
  sentences: 1                  # sentences an image a step, drawn from its report
  lr: 1.0e-5
  weight_decay: 0.01
  warmup: 2000
  clip: 1.0                     # largest gradient norm
  brightness: 0.1
  contrast: 0.1
  seed: 0
  device: auto                  # auto, cpu, cuda, cuda:1
  precision: auto               # auto, float32, bfloat16
  log_every: 20
  validate_every: 500
  save_every: 500
out: runs/default               # checkpoint/, metrics.jsonl, tensorboard/, state/, cache/
"""
"""What ``cxrtext train --init`` writes."""
