"""What a model said about each image, sentence and box; every figure can be recomputed from it.

A *part* holds the rows of one kind of measurement; :mod:`.file` keeps all parts in one Parquet
file.  A figure depends only on the parts and on :class:`~cxrtext.evaluation.Settings`.
"""
