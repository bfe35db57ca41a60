"""Finished models of elsewhere: two towers from a folder, as their authors' own code computes them.

``layouts``: the closed table of what a folder can be.  ``names``: tensors' names of other libraries
in transformers' words.  ``towers``: the two networks.  ``pair``: loading, digests, golden answers.
"""

from cxrtext.models.pairs.pair import Continued, load_pair, save_pair

__all__ = ["Continued", "load_pair", "save_pair"]
