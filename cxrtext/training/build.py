"""From a configuration to a device, a new model and its optimizer."""

import torch
from torch import nn

from cxrtext.config import Config
from cxrtext.errors import ConfigError
from cxrtext.images import Preprocessing
from cxrtext.models import ImageTextModel, ModelSpec, load_masked_language_model
from cxrtext.models.checkpoint import text_config
from cxrtext.models.image_encoder import STRIDES
from cxrtext.models.initial_weights import load_image_weights
from cxrtext.training.recipe import Recipe, parameter_groups


def choose_device(name: str) -> torch.device:
    """The device of a name; "auto" is the first GPU, or the CPU where there is none.

    Raises:
        ConfigError: There is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"training.device: '{name}' is not auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"training.device: '{name}' is not on this machine "
            f"({torch.cuda.device_count()} GPUs seen); use cpu or auto"
        )
    return device


def build_model(config: Config) -> ImageTextModel:
    """A new model; its text encoder starts from the language model's weights.

    Raises:
        ConfigError: The crop is no multiple of the image encoder's stride, so that regions would
            not tile it.
        CheckpointError: The language model or the image weights are damaged or do not fit.
    """
    stride = STRIDES[config.model.image]
    if config.data.crop % stride:
        raise ConfigError(
            f"data.crop: {config.data.crop} is no multiple of {stride}, the stride of "
            f"{config.model.image}; {max(1, round(config.data.crop / stride)) * stride} is"
        )
    language_model = load_masked_language_model(config.model.text)
    text = text_config(language_model.model.config.to_dict())
    longest = int(text["max_position_embeddings"])
    spec = ModelSpec(
        image=config.model.image,
        text=text,
        dimension=config.model.dimension,
        aggregator=config.model.similarity,
        lam=config.model.lam,
        query=config.model.query,
        gamma_sq=config.model.gamma_sq,
        max_tokens=min(config.model.max_tokens, longest),
        preprocessing=Preprocessing(resize=config.data.resize, crop=config.data.crop),
    )
    torch.manual_seed(config.training.seed)
    model = ImageTextModel(spec, language_model.tokenizer)
    model.text_encoder.backbone.load_state_dict(language_model.model.bert.state_dict())
    return model


def load_initial_images(model: ImageTextModel, config: Config) -> str | None:
    """Start the image encoder from given weights; a line that says what was taken, or None.

    Raises:
        CheckpointError: The file is damaged, or of another architecture.
    """
    path = config.model.image_weights
    return load_image_weights(model.image_encoder, path) if path else None


def build_head(config: Config, model: ImageTextModel) -> nn.Module | None:
    """The language model's head, tied to the text encoder's embeddings; None where it is not used.

    It is trained with the encoder, and is no part of the checkpoint.
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
    """AdamW over everything that is not locked."""
    training = config.training
    groups = parameter_groups(
        model,
        head,
        weight_decay=training.weight_decay,
        image_lr=training.image_lr,
        text_lr=training.text_lr,
    )
    return torch.optim.AdamW(groups, lr=training.lr)


def build_recipe(config: Config, device: torch.device) -> Recipe:
    """How to train, as the steps take it."""
    training = config.training
    precision = training.precision
    if precision == "auto":
        half = device.type == "cuda" and torch.cuda.is_bf16_supported()
        precision = "bfloat16" if half else "float32"
    return Recipe(
        steps=training.steps,
        batch=training.batch,
        sentences=training.sentences,
        accumulate=training.accumulate,
        lr=training.lr,
        warmup=training.warmup,
        clip=training.clip,
        brightness=training.brightness,
        contrast=training.contrast,
        rotation=training.rotation,
        mlm_weight=training.mlm_weight,
        ema=training.ema,
        seed=training.seed,
        precision=precision,
        lock=training.lock,
    )
