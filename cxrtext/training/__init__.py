"""Training of the image–text model."""

from cxrtext.training.run import Listener, TrainSummary, train

__all__ = ["Listener", "TrainSummary", "train"]
