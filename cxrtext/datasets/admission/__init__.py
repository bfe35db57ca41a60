"""What an object is, and whether it may enter an archive: one rule for every way in."""

from cxrtext.datasets.admission.decide import NEEDED, Decision, decide

__all__ = ["NEEDED", "Decision", "decide"]
