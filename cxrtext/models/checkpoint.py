"""Checkpoints: a folder with configuration, weights, tokenizer files and notes on training."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

from cxrtext.errors import CheckpointError
from cxrtext.files import check_folder, copy_files, replacing_folder, sha256, write_json
from cxrtext.images import Preprocessing
from cxrtext.models.features.feature_map import FeatureMap
from cxrtext.models.folders import (
    CONFIG,
    FORMAT,
    GOLDEN,
    TOKENIZER_FILES,
    TRAINING,
    VERSION,
    WEIGHTS,
    foreign,
    layout_of,
    model_files,
    pair_fingerprint,
    read_checkpoint_config,
    read_training,
)
from cxrtext.models.foreign import (
    BackboneEncoder,
    check_golden,
    find_backbone,
    load_pair,
    save_pair,
)
from cxrtext.models.foreign.pair import FinishedPair
from cxrtext.models.foreign.text import check_pieces
from cxrtext.models.heads import load_heads
from cxrtext.models.image_text import ImageTextModel, ModelSpec
from cxrtext.models.text_encoder import text_config
from cxrtext.models.weight_files import filled, on_cpu, read_safetensors
from cxrtext.text.tokenizer import load_tokenizer

_AGAIN = "copy the checkpoint again, or train it anew"
NOTED_FOLDER = "backbone_folder"
"""Key in ``training.json`` for the backbone's folder when the model was trained."""


def save_checkpoint(folder: Path, model: ImageTextModel, training: Mapping[str, Any]) -> None:
    """Write a model, whole or not at all.

    ``training`` goes into ``training.json``: the resolved configuration, data fingerprint, metrics.
    """
    spec = {**asdict(model.spec), "preprocessing": model.spec.preprocessing.to_dict()}
    with replacing_folder(folder) as temporary:
        write_json(temporary / CONFIG, {"format": FORMAT, "version": VERSION, **spec})
        save_file(on_cpu(model.state_dict()), temporary / WEIGHTS, metadata={"format": "pt"})
        model.tokenizer.save_pretrained(temporary)
        encoder = model.image_encoder
        if isinstance(encoder, BackboneEncoder):
            training = {**training, NOTED_FOLDER: str(encoder.backbone.folder)}
            save_arrays(dict(encoder.golden), temporary / GOLDEN)
        write_json(temporary / TRAINING, dict(training))
    model.fingerprint = checkpoint_fingerprint(folder)


def copy_model(folder: Path, model: ImageTextModel) -> None:
    """Copy a loaded model's own files into a new folder."""
    if isinstance(model, FinishedPair):
        save_pair(folder, model)
        return
    assert model.folder is not None  # noqa: S101 - it was loaded
    with replacing_folder(folder, sums=False) as made:
        copy_files(model.folder, model_files(model.folder), made)


def checkpoint_fingerprint(folder: Path, sums: Mapping[str, str] | None = None) -> str:
    """SHA-256 over a checkpoint's configuration, weights and tokenizer, in hexadecimal.

    ``sums`` are the digests of its files, if known; otherwise the files are read.
    """
    if layout_of(folder) is not None:
        return pair_fingerprint(folder)
    digest = hashlib.sha256()
    for name in (CONFIG, WEIGHTS, *TOKENIZER_FILES):
        if sums is not None and name in sums:
            digest.update(f"{name}:{sums[name]};".encode())
        elif sums is None and (folder / name).is_file():
            digest.update(f"{name}:{sha256(folder / name)};".encode())
    return digest.hexdigest()


def _read_spec(folder: Path) -> ModelSpec:
    path, config = folder / CONFIG, read_checkpoint_config(folder)
    wanted = {field.name for field in fields(ModelSpec)}
    if missing := wanted - config.keys():
        raise CheckpointError(f"{path}: key '{min(missing)}' is missing; copy the file again")
    try:
        values = {name: config[name] for name in wanted}
        values["preprocessing"] = Preprocessing.from_dict(values["preprocessing"])
        values["text"] = text_config(values["text"])
        return TypeAdapter(ModelSpec).validate_python(values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(map(str, first["loc"])) or "the file"
        raise CheckpointError(f"{path}: {name}: {first['msg']}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def _image_encoder(folder: Path, spec: ModelSpec) -> Callable[[], BackboneEncoder | None]:
    """A function that makes the encoder with a checkpoint's backbone; None without a backbone."""
    if spec.backbone is None:
        return lambda: None
    noted = read_training(folder).get(NOTED_FOLDER)
    backbone = find_backbone({**spec.backbone, "folder": noted}, folder)
    golden = {name: x.numpy() for name, x in read_safetensors(folder / GOLDEN).items()}
    check_golden(backbone, golden)
    note = {key: value for key, value in spec.backbone["reduce"].items() if key != "scale"}
    return lambda: BackboneEncoder(
        backbone,
        FeatureMap(**note),  # the checkpoint's weights have its numbers
        spec.dimension,
        spec.position,
        golden=golden,
    )


def load_model(folder: str | Path, device: str = "cpu") -> ImageTextModel:
    """Load a checkpoint, checking the digest of every file and the shape of every tensor.

    The folder may also be a finished pair from elsewhere (:mod:`cxrtext.models.foreign`).  The
    model is in evaluation mode and has its tokenizer, fingerprint and folder; other files there
    (reference images, calibration) are read when they are needed.
    """
    folder = Path(folder)
    with foreign(folder):
        layout = layout_of(folder)
        model: ImageTextModel = load_pair(folder, layout) if layout else _load(folder)
        model.to(device).eval()
        model.heads = load_heads(folder, model.fingerprint, model.spec.dimension)
        return model


def _load(folder: Path) -> ImageTextModel:
    spec = _read_spec(folder)
    sums = check_folder(folder, (CONFIG, WEIGHTS, TRAINING), CheckpointError, _AGAIN)
    weights = folder / WEIGHTS
    tensors = read_safetensors(weights)
    encoder = _image_encoder(folder, spec)
    tokenizer = load_tokenizer(folder)
    check_pieces(folder, tokenizer, spec.text["vocab_size"])
    fix = (
        f"the weights and {CONFIG} do not belong together, or the file is incomplete: copy the "
        "checkpoint again"
    )
    try:
        model = filled(weights, lambda: ImageTextModel(spec, tokenizer, encoder()), tensors, fix)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    model.fingerprint = checkpoint_fingerprint(folder, sums)
    model.folder = folder
    return model
