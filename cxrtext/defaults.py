"""Defaults that the library, the command line and the HTTP API share; imports nothing."""

DEFAULT_A = 0.2
"""Largest class probability η, that of a sentence of likelihood 1."""

DEFAULT_K = 0.35
"""Exponent on the likelihood in η."""
