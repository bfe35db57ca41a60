"""Commands of an archive: index it, search, label and ground."""
