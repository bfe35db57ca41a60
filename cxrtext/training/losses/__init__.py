"""The losses of a batch by the name of the objective, and what they need of the data."""
