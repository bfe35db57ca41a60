"""Forget a patient or a study in every place that keeps something about them."""
