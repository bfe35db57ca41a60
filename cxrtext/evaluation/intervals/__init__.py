"""Intervals and differences: how sure a figure is."""
