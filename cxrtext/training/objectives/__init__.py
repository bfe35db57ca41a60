"""The objectives that a configuration may name, a file each, and in ``shared`` what several need.

``name: dcl-eta-lm`` is the class ``Objective`` of ``dcl_eta_lm.py``: its settings, what it asks of
the data, and its loss.  Nothing here imports torch before a loss is taken or a table is read, so
that a wrong configuration is refused at once.
"""
