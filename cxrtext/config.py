"""The training configuration: one YAML file and repeatable ``section.key=value`` overrides.

Only the outermost functions see these objects; everything below takes plain arguments.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from cxrtext.errors import ConfigError
from cxrtext.files import write_text
from cxrtext.files.yaml_text import parse_yaml

SHOWN = 80
"""Wrong values longer than this many characters are cut in messages."""
Positive = Annotated[int, Field(gt=0, le=10**9)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A frozen section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataSection(Section):
    """Where the data are and how images are prepared."""

    manifest: Path
    sentences: Path
    words: Path | None = None
    findings: Path | None = None
    features: Path | None = None
    resize: Positive = 512
    crop: Positive = 480
    cache: Path | None = None
    allow_outside: bool = False
    max_rejected: Annotated[int, Field(ge=0)] = 100

    @model_validator(mode="after")
    def _crop_fits(self) -> "DataSection":
        if self.crop > self.resize:
            raise ValueError(f"crop {self.crop} is larger than resize {self.resize}")
        return self


class ModelSection(Section):
    """What the model is made of, whatever its similarity."""

    similarity: str
    image: Literal["resnet18", "resnet50", "resnet50-half", "resnet-narrow", "backbone"] = (
        "resnet18"
    )
    image_weights: Path | None = None
    init: Path | None = None
    text: str = "microsoft/BiomedVLP-CXR-BERT-general"
    dimension: Positive = 128
    gamma_sq: Annotated[float, Field(gt=0, le=100)] = 14.0
    max_tokens: Annotated[int, Field(ge=8, le=512)] = 96
    position: Literal["none", "additive", "mlp"] = "none"

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        if self.init and self.image_weights:
            raise ValueError(
                "init starts from a whole model and image_weights from an image encoder; give one"
            )
        return self


Sharpness = Annotated[float, Field(gt=0)]
QueryMap = Literal["linear", "none"]


class PlainModel(ModelSection):
    """Scores one region, or the mean of all."""

    similarity: Literal["global", "max"]
    lam: ClassVar = 10.0
    query: ClassVar[QueryMap] = "none"


class LseModel(ModelSection):
    """A soft maximum over regions."""

    similarity: Literal["lse"]
    lam: Sharpness = 10.0
    query: ClassVar[QueryMap] = "none"


class NonLocalModel(ModelSection):
    """The bag of the critical region."""

    similarity: Literal["nl"]
    lam: ClassVar = 10.0
    query: QueryMap = "linear"


class LseNonLocalModel(ModelSection):
    """The mean of both."""

    similarity: Literal["lse+nl"] = "lse+nl"
    lam: Sharpness = 10.0
    query: QueryMap = "linear"


def _with_default(key: str, value: str) -> BeforeValidator:
    """Add the default kind to a section without one."""

    def named(section: object) -> object:
        return {key: value, **section} if isinstance(section, dict) else section

    return BeforeValidator(named)


Probability = Annotated[float, Field(gt=0, lt=1)]
Beta = Annotated[float, Field(ge=0, le=100)]
Ridge = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]


class ObjectiveSection(Section):
    """The loss.  The module ``name`` in ``OBJECTIVES`` defines the other keys."""

    name: str

    def fits(self, config: "Config") -> None:
        """Refuse (ValueError) settings that conflict with the rest of the configuration."""


OBJECTIVES = "cxrtext.training.objectives"
"""The package of objectives, one module each: ``dcl-eta-lm`` is ``dcl_eta_lm.py``."""


def objective_names() -> list[str]:
    folder = Path(__file__).parent.joinpath(*OBJECTIVES.split(".")[1:])
    return sorted(path.stem.replace("_", "-") for path in folder.glob("[a-z]*.py"))


def objective_class(name: str) -> type[ObjectiveSection]:
    module = import_module(f"{OBJECTIVES}.{name.replace('-', '_')}")
    objective: type[ObjectiveSection] = module.Objective
    return objective


def read_objective(section: Mapping[str, Any], source: str = "settings") -> ObjectiveSection:
    """The objective that a section names, by default ``dcl-eta-lm``."""
    given = {"name": "dcl-eta-lm", **section}
    if (name := given["name"]) not in (names := objective_names()):
        raise ConfigError(f"{source}: objective.name: {_wanted(name, names)}")
    try:
        return objective_class(name).model_validate(given)
    except ValidationError as error:
        raise ConfigError(_message(source, error, ("objective", name))) from None


Model = Annotated[
    Annotated[
        PlainModel | LseModel | NonLocalModel | LseNonLocalModel, Field(discriminator="similarity")
    ],
    _with_default("similarity", "lse+nl"),
]


_MODELS = {
    kind: section
    for section in get_args(get_args(Model)[0])
    for kind in get_args(section.model_fields["similarity"].annotation)
}


def kinds_of(section: str) -> tuple[str, dict[str, type[Section]]]:
    """The key that decides which keys a section has, and the class for each of its values."""
    if section == "objective":
        return "name", {name: objective_class(name) for name in objective_names()}
    return ("similarity", dict(_MODELS)) if section == "model" else ("", {})


class TrainingSection(Section):
    """How to train.

    The defaults for batch, rates, warm-up and jitter are the paper's.  The number of steps, the
    limit on the gradients and the centering are ours; ``ssd-mimic-cxr.yaml`` is the paper's recipe.
    """

    steps: Positive = 20_000
    batch: Annotated[int, Field(ge=2)] = 64
    accumulate: Positive = 1
    sentences: Positive = 1
    section_weights: dict[str, Annotated[float, Field(gt=0)]] = {}
    lr: Annotated[float, Field(gt=0)] = 1e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Annotated[int, Field(ge=0)] = 2_000
    clip: Annotated[float, Field(ge=0)] = 1.0
    mlm_weight: Annotated[float, Field(ge=0)] = 0.0
    lock: tuple[Literal["image", "text"], ...] = ()
    unlock: Positive | None = None
    unlocked_lr: Annotated[float, Field(gt=0)] = 1.0
    center_projections: bool = True
    brightness: Share = 0.1
    contrast: Share = 0.1
    seed: Annotated[int, Field(ge=0)] = 0
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    log_every: Positive = 20
    validate_every: Positive = 500
    save_every: Positive = 500
    best: Literal["auto", "val/loss", "val/auc", "val/R@1", "val/R@5"] = "val/loss"
    prompts: Path | None = None

    @model_validator(mode="after")
    def _fits(self) -> "TrainingSection":
        if self.batch % self.accumulate:
            raise ValueError(
                f"accumulate {self.accumulate} does not divide batch {self.batch} evenly"
            )
        if self.unlock and not self.lock:
            raise ValueError(f"unlock {self.unlock}: nothing is locked; give lock, such as [image]")
        if self.unlock and self.unlock >= self.steps:
            raise ValueError(
                f"unlock {self.unlock} is not before the last step, {self.steps}; give a smaller "
                "one, or none to keep encoders locked to the end"
            )
        if self.mlm_weight and "text" in self.lock:
            raise ValueError("mlm_weight trains the text encoder, which lock keeps frozen")
        return self


class Config(Section):
    """The whole configuration of a training run."""

    data: DataSection
    model: Model = LseNonLocalModel()
    objective: Annotated[
        SerializeAsAny[ObjectiveSection],
        BeforeValidator(lambda v: read_objective(v) if isinstance(v, Mapping) else v),
    ] = Field(default_factory=lambda: read_objective({}))
    training: TrainingSection = TrainingSection()
    out: Path = Path("runs/default")

    @model_validator(mode="before")
    @classmethod
    def _of_features(cls, tree: Any) -> Any:
        """Features come from a locked backbone: neither need be given."""
        match tree:
            case {"data": {"features": str() | Path()}}:
                model, training = tree.get("model") or {}, tree.get("training") or {}
                if isinstance(model, dict):
                    model = {"image": "backbone", **model}
                if isinstance(training, dict):
                    locked = training.get("lock") or []
                    if isinstance(locked, list | tuple) and "image" not in locked:
                        training = {**training, "lock": ["image", *locked]}
                return {**tree, "model": model, "training": training}
        return tree

    @model_validator(mode="after")
    def _features_fit(self) -> Self:
        if self.data.features is None:
            if self.model.image == "backbone":
                raise ValueError(
                    "model.image: a backbone needs features to train on; name their folder in "
                    "data.features (cxrtext encode makes it)"
                )
            return self
        sizes = DataSection.model_fields
        changed = [
            f"data.{name}"
            for name in ("resize", "crop")
            if getattr(self.data, name) != sizes[name].default
        ]
        if self.model.image != "backbone":
            changed.append("model.image")
        changed += ["model.image_weights"] if self.model.image_weights else []
        changed += ["training.unlock"] if self.training.unlock else []
        if changed:
            raise ValueError(
                f"{changed[0]}: does not go with data.features: images are prepared and embedded "
                "there, once and for all; take the key out"
            )
        return self

    @model_validator(mode="after")
    def _everything_is_read(self) -> Self:
        self.objective.fits(self)
        return self


def parse_override(text: str) -> tuple[list[str], Any]:
    """Read ``section.key=value``; the value is YAML, with ``1e-4`` a number."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: expected section.key=value, such as training.lr=1e-4")
    try:
        parsed = parse_yaml(value)
    except ValueError as error:
        raise ConfigError(f"--set {text}: {error}") from None
    return key.strip().split("."), parsed


def _set(tree: dict[str, Any], keys: list[str], value: Any, text: str) -> None:
    """Set a key; null removes it, so that its default holds."""
    for key in keys[:-1]:
        child = tree.setdefault(key, {})
        if not isinstance(child, dict):
            raise ConfigError(f"--set {text}: '{key}' is a value, not a section")
        tree = child
    if value is None:
        tree.pop(keys[-1], None)
    else:
        tree[keys[-1]] = value


def _message(source: str, error: ValidationError, above: tuple[str, ...] = ()) -> str:
    """One line that names the first wrong key, and what to do.

    ``above`` is the section that was read by itself, unless it is the whole configuration.
    """
    errors = error.errors(include_url=False, include_context=False)
    # An unknown key may be a misspelled missing one; a wrong value was at least given.
    order = {"extra_forbidden": 0, "missing": 2}
    first = min(errors, key=lambda each: order.get(each["type"], 1))
    loc = [key if isinstance(key, int) else repr(key)[1:SHOWN].rstrip("'") for key in first["loc"]]
    path, kind = _without_kinds((*above, *loc))
    key = ".".join(map(str, path))
    if first["type"] == "extra_forbidden":
        return f"{source}: {_unknown_key(path, kind)}"
    if first["type"] == "missing":
        there = "in a file ('cxrtext train --init' writes one)" if source == "--set" else "there"
        return f"{source}: key '{key}' is missing; give it {there} or with --set {key}=…"
    if first["type"] == "union_tag_invalid":
        chosen, kinds = kinds_of(key)
        return f"{source}: {key}.{chosen}: {_wanted(first['input'][chosen], list(kinds))}"
    reason = first["msg"].removeprefix("Value error, ")
    where = f"{key}: " if key else ""
    if not isinstance(first["input"], dict):
        where += f"{repr(first['input'])[:SHOWN]}: "
    return f"{source}: {where}{reason[0].lower()}{reason[1:]}"


def _wanted(given: object, names: Sequence[str]) -> str:
    """The message for a name that is not one of ``names``."""
    nearest = get_close_matches(str(given), names, 1)
    *others, last = nearest or (f"'{name}'" for name in names)
    wanted = f"{', '.join(others)} or {last}" if others else f"did you mean '{last}'?"
    return f"{repr(given)[:SHOWN]}: " + (f"input should be {wanted}" if others else wanted)


def first_difference(
    before: Any, now: Any, key: str = "", *, shared: bool = False
) -> tuple[str, Any, Any] | None:
    """The first key in which two trees of plain values differ, with both values, or None.

    ``key`` is their place in a larger tree; ``shared`` compares only keys that both have.
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            if shared and not (name in before and name in now):
                continue
            where = f"{key}.{name}" if key else str(name)
            inner = first_difference(before.get(name), now.get(name), where, shared=shared)
            if inner is not None:
                return inner
        return None
    return None if before == now else (key, before, now)


_SEAL = re.compile(r"# sha256 ([0-9a-f]{64}) of what follows")


def write_config(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a resolved configuration with its digest, which reading checks."""
    text = yaml.safe_dump(dict(tree), sort_keys=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    write_text(
        path, f"# sha256 {digest} of what follows\n# Remove these lines if you change it.\n{text}"
    )


def _unsealed(path: Path, text: str) -> str:
    """A configuration without the lines that :func:`write_config` put above it."""
    first, _, rest = text.partition("\n")
    if (seal := _SEAL.fullmatch(first)) is None:
        return text
    content = rest.partition("\n")[2]
    if hashlib.sha256(content.encode()).hexdigest() != seal[1]:
        raise ConfigError(
            f"{path}: is not what was written: its digest differs; copy it again, or, if you "
            "changed it yourself, remove its first two lines"
        )
    return content


def _without_kinds(loc: Sequence[str | int]) -> tuple[list[str | int], str]:
    """The place of an error without the kinds that pydantic adds, and the section's kind."""
    path, kind = list(loc), ""
    if len(path) > 1 and path[1] in kinds_of(str(path[0]))[1]:
        kind = str(path.pop(1))
    return path, kind


def _unknown_key(path: Sequence[str | int], kind: str) -> str:
    key = ".".join(map(str, path))
    if not kind:
        return f"there is no key '{key}'; 'cxrtext train --init' writes all keys"
    if len(path) > 2:
        return f"there is no key '{key}'; a kernel takes name, and rbf and laplacian sigma"
    chosen, kinds = kinds_of(str(path[0]))
    own = [name for name in kinds[kind].model_fields if name != chosen]
    if not (takers := [name for name, k in kinds.items() if path[1] in k.model_fields]):
        near = get_close_matches(str(path[1]), own, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"there is no key '{key}'; {meant}{path[0]}.{chosen} {kind} takes {', '.join(own)}"
    return (
        f"{key}: {kind} does not take it, only {', '.join(own)}; take it out (in a --set: "
        f"{key}=null), or take {' or '.join(takers)}"
    )


def _read_tree(path: Path) -> dict[str, Any]:
    try:
        tree = parse_yaml(_unsealed(path, path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; 'cxrtext train --init' writes a configuration"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected sections of key: value, such as data: and training:")
    return tree


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration file, then apply overrides.

    Paths in the file are relative to the file, paths in overrides to the working folder.  Without a
    file, the defaults are the start.  Overrides are ``section.key=value``; ``null`` removes a key.
    """
    tree = {} if path is None else _read_tree(path)
    if path is not None:
        _anchor_paths(tree, path.parent)
    for text in overrides:
        keys, value = parse_override(text)
        _set(tree, keys, value, text)
    return check_config(tree, str(path) if path else "--set")


def check_config(tree: Mapping[str, Any], source: str) -> Config:
    """A configuration from plain values (ConfigError names ``source``, key and value)."""
    if isinstance(objective := tree.get("objective"), Mapping):
        tree = {**tree, "objective": read_objective(objective, source)}
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_message(source, error)) from None


def path_keys(tree: Mapping[str, Any]) -> dict[str, list[str]]:
    """The keys that hold paths, by section, besides ``out``."""
    objective = tree.get("objective")
    name = objective.get("name") if isinstance(objective, Mapping) else None
    classes: dict[str, type[Section]] = {
        "data": DataSection,
        "objective": objective_class(name) if name in objective_names() else ObjectiveSection,
        "model": ModelSection,
        "training": TrainingSection,
    }
    return {
        section: [
            key
            for key, field in kind.model_fields.items()
            if Path in (field.annotation, *get_args(field.annotation))
        ]
        for section, kind in classes.items()
    }


def _anchor_paths(tree: dict[str, Any], folder: Path) -> None:
    for name, keys in {**path_keys(tree), "": ["out"]}.items():
        section = tree.get(name) if name else tree
        for key in keys:
            if isinstance(section, dict) and isinstance(section.get(key), str):
                section[key] = str(folder / section[key])
    # A text model is a hub id or a folder; it is a path only if the folder exists.
    model = tree.get("model")
    if isinstance(model, dict) and isinstance(model.get("text"), str):
        local = folder / model["text"]
        if local.is_dir():
            model["text"] = str(local)


def with_whole_paths(config: Config) -> Config:
    """The same configuration with absolute paths, so that it can be kept anywhere."""
    tree = config.model_dump(mode="json")
    _anchor_paths(tree, Path.cwd())
    return check_config(tree, "settings")


def template(name: str = "cxrtext.yaml") -> str:
    """A file of ``configs``, as ``cxrtext train --init`` writes it; by default, every setting."""
    folder = Path(__file__).with_name("configs")
    path = folder / name
    return (path if path.is_file() else folder / "cxrtext.yaml").read_text(encoding="utf-8")
