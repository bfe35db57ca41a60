"""Verdicts on sentences of reports: calibrated on validation images, kept with the checkpoint."""
