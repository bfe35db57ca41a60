"""The ResNets of `pretrain-image`, and their folder for transformers."""

from pathlib import Path
from typing import Any

from cxrtext.files import replacing_folder, write_json
from cxrtext.images import Preprocessing
from cxrtext.models.foreign.processor import FILTERS
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights
from cxrtext.training.image_pretraining.settings import ImagePretrainSettings


def build_network(name: str) -> Any:
    """A one-channel network with random weights."""
    return ImageEncoder(name).backbone


def start_network(settings: ImagePretrainSettings) -> tuple[Any, Preprocessing]:
    """The initial network and its preprocessing.

    Weights from elsewhere bring their own gray levels, filter and fit of images;
    :func:`~cxrtext.models.image_weights.set_norms` sets their batch norms once there are images.
    """
    encoder = ImageEncoder(settings.image)
    if settings.weights is None:
        return encoder.backbone, Preprocessing(resize=settings.resize, crop=settings.crop)
    start = load_image_weights(encoder, settings.weights)
    return encoder.backbone, start.prepared(settings.resize, settings.crop)


def has_layout(settings: ImagePretrainSettings) -> bool:
    """Whether transformers has a configuration for the network and its preprocessing."""
    # No configuration can say that ``resnet-narrow`` has no max pooling.  transformers crops the
    # center of the whole image, we crop the center square: with an odd difference, the two are a
    # pixel apart.
    return settings.image != "resnet-narrow" and (settings.resize - settings.crop) % 2 == 0


def write_backbone(folder: Path, network: Any, preprocessing: Preprocessing) -> None:
    """Write ``config.json``, ``model.safetensors`` and ``preprocessor_config.json``.

    The folder is replaced as a whole.
    """
    with replacing_folder(folder) as temporary:
        network.save_pretrained(temporary)
        write_json(temporary / "preprocessor_config.json", processor_of(preprocessing))


def processor_of(preprocessing: Preprocessing) -> dict[str, Any]:
    """The same preprocessing as a configuration of transformers' image processors.

    If ``resize - crop`` is even, square images come out equal bit for bit; in others, one pixel in
    a hundred may differ by a gray level, because Pillow keeps the place of our center square in 32
    bits.
    """
    size, side = preprocessing.resize, preprocessing.crop
    both = {"height": size, "width": size}
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": False,
        "do_resize": True,
        "size": both if preprocessing.fit == "stretch" else {"shortest_edge": size},
        "resample": FILTERS.index(preprocessing.resample),
        "do_center_crop": True,
        "crop_size": {"height": side, "width": side},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [preprocessing.mean],
        "image_std": [preprocessing.std],
    }
