"""The three tasks of an evaluation, each from embedded images to numbers with intervals."""
