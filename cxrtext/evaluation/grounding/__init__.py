"""Grounding: boxes, and how well maps of scores agree with them."""
