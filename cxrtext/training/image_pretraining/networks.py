"""The ResNets that `pretrain-image` trains, and the folder of one as transformers reads it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxrtext.files import replacing_folder, write_json, write_text
from cxrtext.images import Preprocessing
from cxrtext.models.backbones.weights import quietly
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights
from cxrtext.training.image_pretraining.settings import ImagePretrainSettings


def build_network(name: str, weights: Path | None = None) -> Any:
    """A one-channel network, random or with weights of elsewhere."""
    encoder = ImageEncoder(name)
    if weights:
        load_image_weights(encoder, weights)
    return encoder.backbone


LAID_OUT = ("resnet18", "resnet50", "resnet50-half")
"""Networks that a configuration of transformers describes; ``resnet-narrow`` has no max pooling,
and none says that."""
BILINEAR = 2  # pillow's number of the filter that `~cxrtext.images.Preprocessing` resizes with

_README = """\
---
license: other
library_name: transformers
pipeline_tag: image-feature-extraction
tags: [chest-x-ray, cxrtext]
---

# {name}

A network for frontal chest radiographs, trained by `cxrtext pretrain-image`. It is no medical
device.

License: none comes with it. What may be done with it follows from the terms of the images and
reports that it was trained on; who passes it on writes the license here, and in the first lines.

{lines}

Input: one channel, gray values from 0 (black, air) to 1 (white, bone); the shorter side resized to
{resize} pixels (bilinear, as Pillow does it, in 8 bits), the center {crop} x {crop} pixels cut out,
{mean} subtracted, and divided by {std}; `preprocessor_config.json` says the same.

```
cxrtext encode MANIFEST --backbone FOLDER --out FEATURES
```
"""


def has_layout(settings: ImagePretrainSettings) -> bool:
    """Whether transformers can say what the network is, and what it is given."""
    # Others cut the center out of the whole image, we out of the center square: where the
    # difference is odd these are a pixel apart.
    return settings.image in LAID_OUT and (settings.resize - settings.crop) % 2 == 0


def write_backbone(
    folder: Path, network: Any, preprocessing: Preprocessing, lines: Sequence[str]
) -> None:
    """Write ``config.json``, ``model.safetensors``, ``preprocessor_config.json``, ``README.md``.

    ``lines`` say in the README what it was trained on.  The folder is replaced as a whole.
    """
    with replacing_folder(folder) as temporary:
        with quietly():
            network.save_pretrained(temporary)
        write_json(temporary / "preprocessor_config.json", processor_of(preprocessing))
        text = _README.format(
            name=folder.name,
            lines="\n".join(f"- {line}" for line in lines),
            **preprocessing.to_dict(),
        )
        write_text(temporary / "README.md", text)


def processor_of(preprocessing: Preprocessing) -> dict[str, Any]:
    """The same preparation in the words of transformers' image processors.

    Where ``resize - crop`` is even, square images come out equal bit for bit, and of others a
    pixel in a hundred may be one gray level apart: Pillow keeps the place of our center
    square in 32 bits.
    """
    size, side = preprocessing.resize, preprocessing.crop
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": False,
        "do_resize": True,
        "size": {"shortest_edge": size},
        "resample": BILINEAR,
        "do_center_crop": True,
        "crop_size": {"height": side, "width": side},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [preprocessing.mean],
        "image_std": [preprocessing.std],
    }
