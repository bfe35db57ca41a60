"""Gradient checkpointing: activations are computed again in the backward pass, not kept."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from cxrtext.models import ImageTextModel
from cxrtext.training.step import looking_only


def recompute_activations(model: ImageTextModel) -> None:
    """Keep activations between the image encoder's stages and the text encoder's layers only.

    Gradients stay what they are.  Batch norms learn from the first of both passes.

    Args:
        model: The model; changed in training mode only.
    """
    stages = model.image_encoder.backbone.encoder.stages
    layers = model.text_encoder.backbone.encoder.layer
    for part in (*stages, *layers):
        part.forward = _recomputed(part)


def _recomputed(module: nn.Module) -> Callable[..., Any]:
    forward = module.forward

    def run(*inputs: Any, **named: Any) -> Any:
        if not (module.training and torch.is_grad_enabled()):
            return forward(*inputs, **named)
        return checkpoint(
            forward,
            *inputs,
            use_reentrant=False,
            context_fn=lambda: (nullcontext(), looking_only(module)),
            **named,
        )

    return run
