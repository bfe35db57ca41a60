"""What a paper or a technical file needs besides the figures, made from the run itself."""
