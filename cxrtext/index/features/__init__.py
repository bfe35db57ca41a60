"""What an index derives from an image's regions, for scores that are exact and quick."""
