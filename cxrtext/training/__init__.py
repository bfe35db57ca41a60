"""Training of the image–text model."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.training.listener import Listener
    from cxrtext.training.run import TrainSummary, train

__all__ = ["Listener", "TrainSummary", "train"]

import_on_use(__name__)
