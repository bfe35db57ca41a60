"""From a configuration to the model that training starts from, and its optimizer."""

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cxrtext.config import Config
from cxrtext.device import adamw, choose_precision, forked_rng
from cxrtext.errors import ConfigError
from cxrtext.images import Preprocessing
from cxrtext.models import ImageTextModel, ModelSpec, load_masked_language_model, load_model
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.models.folders import layout_of
from cxrtext.models.foreign import BackboneEncoder, check_golden, find_backbone, load_text_encoder
from cxrtext.models.image_encoder import STRIDES
from cxrtext.models.regions import normalized, require_features
from cxrtext.training.data.loader import Examples
from cxrtext.training.loop.optimization import TrainingArguments, decay_groups, set_training
from cxrtext.training.step import frozen_statistics

CONTINUED = ("image", "dimension", "position")
"""Parts of a model's specification that must be as in the checkpoint it starts from."""
SAMPLE = 128  # images, and sentences, for measuring a mean


def build_model(config: Config, features: FeatureFolder | None = None) -> ImageTextModel:
    """A model as configured, with its initial weights.

    Weights come from the checkpoint in ``model.init``.  Without it the text encoder starts from the
    folder in ``model.text``, and everything else is random.  With ``features`` (``data.features``),
    their backbone is the image encoder.
    """
    stride = 1 if features is not None else STRIDES[config.model.image]
    if config.data.crop % stride:
        raise ConfigError(
            f"data.crop: {config.data.crop} is not a multiple of {stride}, the stride of "
            f"{config.model.image}; {max(1, round(config.data.crop / stride)) * stride} is"
        )
    torch.manual_seed(config.training.seed)
    if config.model.init is not None:
        if layout_of(Path(config.model.init)) is not None:
            raise ConfigError(
                f"model.init: {config.model.init} is a finished pair, which is not trained on; "
                "give its folder to 'cxrtext fit --model', or an image encoder to --encoder"
            )
        return _continued(config, load_model(config.model.init), features)
    start = load_text_encoder(config.model.text)
    torch.manual_seed(config.training.seed)
    spec = _spec(config, start.config, start.pooling or "cls")
    model = _new_model(spec, start.tokenizer, features)
    model.text_encoder.backbone.load_state_dict(start.state)
    return model


def _new_model(spec: ModelSpec, tokenizer: Any, features: FeatureFolder | None) -> ImageTextModel:
    if features is None:
        return ImageTextModel(spec, tokenizer)
    backbone = find_backbone(features.backbone, None)
    check_golden(backbone, features.golden)
    encoder = BackboneEncoder(
        backbone,
        deepcopy(features.map),  # the folder's own map stays unchanged
        spec.dimension,
        spec.position,
        golden=features.golden,
    )
    spec = replace(spec, preprocessing=backbone.preprocessing, backbone=encoder.note())
    return ImageTextModel(spec, tokenizer, encoder)


def _spec(config: Config, text: Mapping[str, Any], pooling: str) -> ModelSpec:
    return ModelSpec(
        image=config.model.image,
        text=text,
        dimension=config.model.dimension,
        aggregator=config.model.similarity,
        lam=config.model.lam,
        query=config.model.query,
        gamma_sq=config.model.gamma_sq,
        max_tokens=min(config.model.max_tokens, int(text["max_position_embeddings"])),
        preprocessing=Preprocessing(resize=config.data.resize, crop=config.data.crop),
        position=config.model.position,
        pooling=pooling,
    )


def _continued(
    config: Config, start: ImageTextModel, features: FeatureFolder | None
) -> ImageTextModel:
    """A model with the weights of another; its similarity may differ.

    A query map or a position that the other model does not have starts as in a new model.
    """
    spec = _spec(config, start.spec.text, start.spec.pooling)
    model = _new_model(spec, start.tokenizer, features)
    for name in CONTINUED:
        wanted, given = getattr(model.spec, name), getattr(start.spec, name)
        if wanted != given and (name, given) != ("position", "none"):
            raise ConfigError(
                f"model.init: {config.model.init} has {name} {given}, and model.{name} is "
                f"{wanted}; set model.{name}={given}"
            )
    if features is not None:
        require_features(start, features)
    own = model.state_dict()
    same = start.spec.query == model.spec.query
    taken = {
        name: tensor
        for name, tensor in start.state_dict().items()
        if name in own and (same or not name.startswith("query."))
    }
    model.load_state_dict({**own, **taken})
    return model


def build_head(config: Config, model: ImageTextModel) -> nn.Module | None:
    """The language model's head, tied to the text encoder's embeddings; None if it is not used.

    It is trained with the encoder but is not part of the checkpoint.
    """
    if not config.training.mlm_weight:
        return None
    head: nn.Module = load_masked_language_model(config.model.text).model.cls
    embeddings = model.text_encoder.backbone.embeddings.word_embeddings
    head.get_submodule("predictions.decoder").weight = embeddings.weight
    return head


def build_optimizer(
    model: ImageTextModel, head: nn.Module | None, config: Config
) -> torch.optim.AdamW:
    """AdamW for everything that is not locked; biases, norms and γ² do not decay."""
    groups: list[dict[str, object]] = []
    seen: set[int] = set()
    for module in (model.image_encoder, model.text_encoder, head or nn.Module(), model):
        new = [p for p in module.parameters() if p.requires_grad and id(p) not in seen]
        seen.update(map(id, new))
        groups += decay_groups(new, config.training.weight_decay)
    return adamw(groups, model.device, lr=config.training.lr)


def training_arguments(config: Config, device: torch.device) -> TrainingArguments:
    training = config.training
    precision = choose_precision(training.precision, device)
    # Configuration keys have the arguments' names, so a new key needs no change here.
    given = {one.name: getattr(training, one.name, None) for one in fields(TrainingArguments)}
    return TrainingArguments(
        **{key: value for key, value in given.items() if value is not None}
        | {"clip": training.clip or math.inf, "precision": precision}
    )


def center_projections(
    model: ImageTextModel, examples: Examples, seed: int, lock: Iterable[str] = ()
) -> None:
    """Set the biases of both linear maps so that the mean embedding of the data is zero.

    A text encoder's states differ little from each other, and so do an untrained ResNet's regions:
    normalized without this, they all point the same way, and scores tell nothing apart for hundreds
    of steps.  Subtracting the mean keeps the maps linear.

    The papers do not do this; ``training.center_projections`` turns it off.  ``seed`` chooses the
    sample; locked encoders use their running statistics.
    """
    generator = np.random.default_rng([seed, 5])
    rows = generator.permutation(len(examples))[:SAMPLE]
    batch = examples.batch(rows, generator).to(model.device)
    set_training(model, lock)  # batch statistics: the running ones mean nothing yet
    with torch.no_grad(), forked_rng(model.device), frozen_statistics(model):
        torch.manual_seed(seed)
        if batch.locked:
            mean = batch.images.float().mean(dim=(0, 1, 2))
        else:
            images = normalized(batch.images, model.spec.preprocessing)
            features = model.image_encoder.features(images)
            mean = features.permute(0, 3, 1, 2).contiguous().mean(dim=(0, 2, 3))
        encode = model.text_encoder.states
        states = torch.cat([encode(one.input_ids, one.attention_mask) for one in batch.tokens])
        _center(model.image_encoder.projection, mean)
        _center(model.text_encoder.projection, states.mean(dim=0))


def _center(projection: nn.Linear, mean: Tensor) -> None:
    projection.bias.copy_(-projection.weight @ mean)
