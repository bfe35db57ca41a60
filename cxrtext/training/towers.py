"""The two encoders as one module: what is divided among processes and micro-batches."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.models import ImageTextModel
from cxrtext.training.batch import Tokens

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Half precision where it is asked for."""
    dtype = DTYPES.get(precision)
    return torch.autocast(device.type, dtype=dtype) if dtype else nullcontext()


class Towers(nn.Module):
    """Images to regions, and sentences to vectors; each image and sentence by itself.

    γ² and the query map are not in it: they act on all of a batch (:mod:`.contrast`).

    Args:
        model: The model, whose encoders these are.
        head: The head of the masked language model, or None.
        precision: "float32", "bfloat16" or "float16".
    """

    def __init__(self, model: ImageTextModel, head: nn.Module | None, precision: str) -> None:
        super().__init__()
        self.image_encoder = model.image_encoder
        self.text_encoder = model.text_encoder
        self.head = head
        self.precision = precision

    def forward(self, images: Tensor, tokens: list[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Embed some images and some sentences.

        Args:
            images: [b, 1, H, W], normalised.
            tokens: u sentences in groups.

        Returns:
            Regions [b, N, D] and texts [u, D], unit vectors in float32, and the summed
            cross-entropy of the guessed word pieces, in nats (0 without a head).
        """
        with autocast(images.device, self.precision):
            regions = self.image_encoder(images)
            texts = [self.text_encoder(g.input_ids, g.attention_mask) for g in tokens]
            guesses = sum((self._guess(g) for g in tokens), images.new_zeros(()))
        return regions.float().flatten(1, 2), torch.cat(texts).float(), guesses

    def _guess(self, group: Tokens) -> Tensor:
        if self.head is None or group.hidden is None or group.guessed is None:
            return torch.zeros((), device=group.input_ids.device)
        states = self.text_encoder.backbone(
            input_ids=group.hidden, attention_mask=group.attention_mask
        ).last_hidden_state
        logits = self.head(states[group.guessed])  # [guessed pieces, V]
        return F.cross_entropy(logits.float(), group.input_ids[group.guessed], reduction="sum")
