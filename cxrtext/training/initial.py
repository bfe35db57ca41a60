"""Where training starts from."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from cxrtext.images.augment import centre_crop
from cxrtext.models import ImageTextModel
from cxrtext.training.data import Examples
from cxrtext.training.recipe import set_training
from cxrtext.training.step import looking_only

SAMPLE = 128
"""Images, and sentences, whose mean is taken."""


def centre_projections(
    model: ImageTextModel, examples: Examples, seed: int, lock: Iterable[str] = ()
) -> None:
    """Set the biases of both linear maps so that the mean embedding of the data is zero.

    A BERT's ``[CLS]`` states differ little from each other, and so do an untrained ResNet's
    regions: normalised as they are, all lie in one direction, and hundreds of steps pass before
    scores tell anything apart.  Taking the mean away leaves the maps linear.

    Args:
        model: The model; its biases are changed.
        examples: Training data.
        seed: Chooses the sample.
        lock: Encoders that are held still, and so use their running statistics.
    """
    generator = np.random.default_rng([seed, 5])
    rows = generator.permutation(len(examples))[:SAMPLE]
    batch = examples.batch(rows, generator).to(model.device)
    images = centre_crop(batch.images, model.spec.preprocessing.crop).float() / 255.0
    set_training(model, lock)  # batch statistics: the running ones say nothing yet
    with torch.no_grad(), torch.random.fork_rng(), looking_only(model):
        torch.manual_seed(seed)
        normalised = (images - model.spec.preprocessing.mean) / model.spec.preprocessing.std
        features = model.image_encoder.backbone(normalised).last_hidden_state  # [B, C, h, w]
        states = torch.cat(
            [
                model.text_encoder.backbone(
                    input_ids=group.input_ids, attention_mask=group.attention_mask
                ).last_hidden_state[:, 0]
                for group in batch.tokens
            ]
        )
        _centre(model.image_encoder.projection, features.mean(dim=(0, 2, 3)))
        _centre(model.text_encoder.projection, states.mean(dim=0))


def _centre(projection: nn.Linear, mean: Tensor) -> None:
    projection.bias.copy_(-projection.weight @ mean)
