"""False negatives of a training set: which pairs used as negatives are likely positives."""
