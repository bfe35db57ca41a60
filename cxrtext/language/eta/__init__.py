"""The class probability of sentences: fitted, judged by statistics, drawn."""
