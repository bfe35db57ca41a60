"""The queue between what a hospital sends and the index: on disk before it is acknowledged."""
