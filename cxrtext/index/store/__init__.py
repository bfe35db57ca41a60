"""The files of an index: the catalogue, the vectors beside it, and how they change."""
