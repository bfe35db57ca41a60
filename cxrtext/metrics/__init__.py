"""Measures and their intervals, from numbers alone: nothing here reads a model, image or text."""
