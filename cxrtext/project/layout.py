"""What a project's files and folders are called."""

RECIPE = "recipe.yaml"
"""What makes a folder a project."""
DATA, DECODED, RUN, INDEX, EVALUATION = "data", "decoded", "run", "index", "evaluation"
CHECKPOINT = f"{RUN}/checkpoint-best"
"""What validation images chose; the last step's model may be past its best."""

WATCH = "watch.json"
"""Counts of what a server was asked in the week, without ids."""
REPORTS = "training-reports.csv"
"""The reports of all studies but those to measure on, which no model may see."""
THIRD = "manifest.third.csv"
"""In the data folder: a third of the training patients, and all others."""
