"""Take radiographs out of a PACS: its archive, and what is new there."""
