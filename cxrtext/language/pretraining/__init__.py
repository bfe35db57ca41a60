"""Masked language models trained on reports."""
