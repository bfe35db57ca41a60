"""``cxrtext encode``: the images of a manifest as region features of a backbone, in shards.

The folder of features is the job's own: its shards are read as they are, and what finishes it adds
the list of images and ``features.json``.  Nothing is kept in memory that grows with the manifest.
"""
