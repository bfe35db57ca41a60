"""Grounding: boxes, and how well score maps agree with them."""
