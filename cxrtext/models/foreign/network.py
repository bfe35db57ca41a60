"""The network of a model folder: its configuration by a schema, its tensors checked key by key."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from pydantic import ValidationError
from torch import Tensor

from cxrtext.errors import CheckpointError, line_of
from cxrtext.files import check_listed
from cxrtext.models.folders import CONFIG, PICKLED_WEIGHTS, SAFE_WEIGHTS, read_json, refused
from cxrtext.models.foreign.kinds import BACKBONES, Kind
from cxrtext.models.weight_files import check_finite, difference, listed, read_state

_HEADS = (
    *("classifier", "cls_classifier", "distillation_classifier", "decoder", "head", "logit_bias"),
    *("logit_scale", "mask_token", "pooler", "projector", "text_model", "text_projection"),
    "visual_projection",
)
"""First parts of names that are left out: heads, and the other tower of a pair."""
BUFFERS = ("mask_token", "position_ids", "relative_position_index", "inv_freq", "attn_mask")
"""Last parts of names that are left out: what masked pretraining used, and constants."""
_NEEDLESS = ("mask_token", "num_batches_tracked")
"""Last parts of names that a file may lack, because nothing is computed from them here."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a folder's ``config.json`` says."""

    kind: Kind
    model_type: str
    config: Any  # transformers' configuration of it
    settings: Mapping[str, Any]  # the configuration's values that were read, or are defaults


@dataclass(frozen=True, slots=True)
class Network:
    """A vision model, on the CPU, in float32."""

    described: Described
    model: torch.nn.Module
    tensors: str  # SHA-256 over names, shapes and float32 values of what was loaded
    ignored: str  # modules of the file that were not, with their numbers of tensors; "" for none


def describe(folder: Path) -> Described:
    """Read the configuration of a model folder, without its weights."""
    path = folder / CONFIG
    if not path.exists():
        raise CheckpointError(
            f"{path}: no such file; a backbone is the folder of a model of transformers, with "
            f"{CONFIG}, {SAFE_WEIGHTS} and preprocessor_config.json"
        )
    values = read_json(path)
    model_type = values.get("model_type") if isinstance(values, dict) else None
    if not isinstance(model_type, str) or model_type not in BACKBONES:
        raise CheckpointError(
            f"{path}: model_type {model_type!r} is no backbone that is known; known are "
            f"{', '.join(BACKBONES)}"
        )
    kind = BACKBONES[model_type]
    if model_type in ("siglip", "clip"):
        both = (values.get("vision_config"), values.get("vision_config_dict"))
        values = {key: x for part in both if isinstance(part, dict) for key, x in part.items()}
    try:
        given = kind.schema.model_validate(values).model_dump(exclude_none=True)
        config_class, _ = kind.classes()
        config = config_class(**given, **kind.fixed)
        settings = {name: getattr(config, name) for name in kind.schema.model_fields}
        kind.schema.model_validate(settings)  # transformers' defaults fit the schema too
    except ValidationError as error:
        raise refused(path, "", error) from None
    except (StrictDataclassError, ValueError, TypeError) as error:  # transformers' own checks
        raise CheckpointError(f"{path}: {line_of(error)}") from None
    width, heads = settings.get("hidden_size", 0), settings.get("num_attention_heads", 1)
    if width % heads:
        raise CheckpointError(
            f"{path}: hidden_size {width} is no multiple of num_attention_heads {heads}"
        )
    settings = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    stages = {name: len(v) for name, v in settings.items() if isinstance(v, list)}
    stages.pop("depthwise_padding", None)  # names blocks
    stages |= {"num_stages": settings["num_stages"]} if "num_stages" in settings else {}
    if len(set(stages.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in stages.items())
        raise CheckpointError(f"{path}: the numbers of stages differ: {said}")
    return Described(kind, model_type, config, settings)


def load_network(folder: Path) -> Network:
    described = describe(folder)
    kind, config = described.kind, described.config
    for name in (SAFE_WEIGHTS, PICKLED_WEIGHTS):
        parts = folder / f"{name}.index.json"
        if parts.is_file() and not (folder / name).is_file():
            raise CheckpointError(
                f"{parts}: the weights are in several files; write them as one: "
                'model.save_pretrained(FOLDER, max_shard_size="100GB") of transformers'
            )
    for name in (CONFIG, SAFE_WEIGHTS, PICKLED_WEIGHTS):  # where SHA256SUMS lists them
        check_listed(folder / name, CheckpointError)
    source, state = read_state(folder)
    kept, ignored = _own(source, state, kind)
    _, model_class = kind.classes()
    model = network_of(source, model_class, config, kept, attention=kind.attention, **kind.build)
    return Network(described, model, _digest(kept), ignored)


def network_of(
    source: Path,
    model_class: Any,
    config: Any,
    state: Mapping[str, Tensor],
    *,
    attention: str = "sdpa",
    **build: Any,
) -> Any:
    """A network of transformers with the tensors of a file, every one of them used, in float32.

    The names may be those of the hub's files, which transformers brings to its own.
    """
    constants = (*BUFFERS, *_NEEDLESS)
    check_finite(source, {n: x for n, x in state.items() if n.split(".")[-1] not in constants})
    with quietly(), torch.random.fork_rng(devices=[]):
        try:
            with torch.device("meta"):  # shapes only, no memory
                own = model_class(config, **build).state_dict().values()
            wanted, held = (sum(x.numel() for x in some) for some in (own, state.values()))
            if wanted > 2 * held:
                raise ValueError(f"that describes {wanted} numbers, and the file has {held}")
            model, info = model_class.from_pretrained(
                None,
                config=config,
                state_dict=dict(state),
                dtype=torch.float32,
                attn_implementation=attention,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **build,
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"{source}: does not fit its configuration: {line_of(error)}"
            ) from None
    _check_loaded(source, info)
    return model.eval()


def _own(source: Path, state: Mapping[str, Any], kind: Kind) -> tuple[dict[str, Tensor], str]:
    """The tensors of the vision model, by its own names, and in words what is left out."""
    prefixes = sorted(
        name.removesuffix(kind.stem)
        for name in state
        if name == kind.stem or name.endswith(f".{kind.stem}")
    )
    if not prefixes:
        raise CheckpointError(
            f"{source}: holds no {kind.model} in transformers' names: none of its {len(state)} "
            f"tensors is {kind.stem}"
        )
    if len(prefixes) > 1:
        raise CheckpointError(
            f"{source}: holds {len(prefixes)} models, under {listed(prefixes)}; save the one that "
            "is wanted alone"
        )
    prefix = prefixes[0]
    kept: dict[str, Tensor] = {}
    ignored: Counter[str] = Counter()
    unknown: list[str] = []
    for name, tensor in state.items():
        within = name.removeprefix(prefix)
        parts = within.split(".")
        if parts[0] in _HEADS or parts[-1] in BUFFERS:
            inside = prefix if name.startswith(prefix) else ""
            ignored[name if parts[-1] in BUFFERS else f"{inside}{parts[0]}"] += 1
        elif not name.startswith(prefix):
            unknown.append(name)
        elif not isinstance(tensor, Tensor):
            raise CheckpointError(f"{source}: {name} is no tensor")
        else:
            kept[within] = tensor
    if unknown:
        raise CheckpointError(
            f"{source}: {len(unknown)} tensors are neither the {kind.model}'s nor of a head that "
            f"is known: {listed(unknown)}"
        )
    return kept, ", ".join(f"{part} ({n})" for part, n in sorted(ignored.items()))


def _check_loaded(source: Path, info: Mapping[str, Any]) -> None:
    """Refuse a file with a tensor too few, too many or of another shape."""
    missing = [x for x in info["missing_keys"] if x.split(".")[-1] not in _NEEDLESS]
    if fault := difference(missing, info["unexpected_keys"], sorted(info["mismatched_keys"])):
        raise CheckpointError(f"{source}: the tensors do not fit the configuration; {fault}")
    for line in info.get("error_msgs") or ():
        raise CheckpointError(f"{source}: {str(line).splitlines()[0]}")


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over tensors by the file's own names, which no version of a library changes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        if name.split(".")[-1] in _NEEDLESS:
            continue
        digest.update(f"{name} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().to(torch.float32).contiguous().numpy().data)
    return digest.hexdigest()


@contextmanager
def quietly() -> Iterator[None]:
    """Without transformers' table and progress bar: what they would say is checked, in one line."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
