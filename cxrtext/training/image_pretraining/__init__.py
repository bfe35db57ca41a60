"""Pre-trains image encoders for the image–text model, on finding words or labels."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.training.image_pretraining.pretrain import ImagePretrainSummary, pretrain_image
    from cxrtext.training.image_pretraining.settings import ImagePretrainSettings

__all__ = ["ImagePretrainSettings", "ImagePretrainSummary", "pretrain_image"]

import_on_use(__name__)
