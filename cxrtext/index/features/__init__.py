"""What an index derives from an image's regions, for exact and fast scores."""
