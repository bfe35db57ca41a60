"""Taking radiographs out of a PACS: an archive at once (pull), or what is new there (follow)."""
