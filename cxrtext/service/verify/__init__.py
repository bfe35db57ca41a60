"""A report against an image: its sentences, their wording, and how well the image supports them."""
