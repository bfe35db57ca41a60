"""The files of an index: the catalogue, vectors beside it, and how they change."""
