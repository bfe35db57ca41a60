"""Measures and their intervals, of numbers alone: no model, no image and no text is read here."""
