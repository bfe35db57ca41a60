"""Retrieval: ranks of sentences, images and boxes."""
