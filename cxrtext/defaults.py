"""Defaults shared by the library, the command line and the HTTP API; imports nothing."""

DEFAULT_A = 0.2
"""The largest class probability η, for a sentence of likelihood 1."""

DEFAULT_K = 0.35
"""Exponent on the likelihood in η."""
