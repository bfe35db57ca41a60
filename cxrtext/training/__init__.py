"""Training of the image–text model."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.training.image_text import TrainSummary, train
    from cxrtext.training.loop.steps import Listener

__all__ = ["Listener", "TrainSummary", "train"]

import_on_use(__name__)
