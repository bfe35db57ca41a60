"""Encoders, similarity, the image–text model and its checkpoints."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.models.checkpoint import load_model, save_checkpoint
    from cxrtext.models.foreign import PretrainedText, load_text_encoder
    from cxrtext.models.image_text import ImageTextModel, ModelSpec
    from cxrtext.models.masked_lm import MaskedLanguageModel, load_masked_language_model

__all__ = [
    "ImageTextModel",
    "MaskedLanguageModel",
    "ModelSpec",
    "PretrainedText",
    "load_masked_language_model",
    "load_model",
    "load_text_encoder",
    "save_checkpoint",
]

import_on_use(__name__)
