"""What a model said of each image, sentence and box, kept so that every figure can be recomputed.

A *part* holds the rows of one kind of measurement; :mod:`.file` keeps all parts in one Parquet
file.  A figure is a function of the parts and of :class:`~cxrtext.evaluation.Settings` alone.
"""
