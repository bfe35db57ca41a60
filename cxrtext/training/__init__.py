"""Training of the image–text model."""

from cxrtext.training.listener import Listener
from cxrtext.training.run import TrainSummary, train

__all__ = ["Listener", "TrainSummary", "train"]
