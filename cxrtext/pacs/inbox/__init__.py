"""The queue between a hospital and the index; entries are on disk before they are acknowledged."""
