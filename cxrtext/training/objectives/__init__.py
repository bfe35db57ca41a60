"""The objectives that a configuration may name, one file each; ``shared`` has what several need.

``name: dcl-eta-lm`` is the class ``Objective`` in ``dcl_eta_lm.py``: its settings, what it needs
from the data, and its loss.  Nothing here imports torch before a loss is computed or a table is
read, so a wrong configuration is refused at once.
"""
