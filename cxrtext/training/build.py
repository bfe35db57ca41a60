"""From a configuration to a device and a new model."""

import torch

from cxrtext.config import Config
from cxrtext.errors import ConfigError
from cxrtext.images import Preprocessing
from cxrtext.models import ImageTextModel, ModelSpec, load_masked_language_model
from cxrtext.models.checkpoint import text_config
from cxrtext.models.image_encoder import STRIDES


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
