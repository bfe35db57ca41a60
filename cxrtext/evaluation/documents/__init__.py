"""What a paper or a technical file needs beside the figures, made from the run itself."""
