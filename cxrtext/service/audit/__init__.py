"""An archive's reports against its films: where the two disagree."""
