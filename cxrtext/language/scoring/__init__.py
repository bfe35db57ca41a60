"""Pseudo-log-likelihoods of sentences: the engine, its cache, and runs over reports."""
