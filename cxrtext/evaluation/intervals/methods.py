"""By which method a figure has its interval, as ``metrics.json`` and the report say it."""

from cxrtext.evaluation.intervals.comparison import OF_FINDING

AREA = "logit-DeLong, clustered by patient"
SHARE = "Wilson, clustered by patient"
RESAMPLED = "percentiles over resamples of the patients, expanded for few"
LOGIT = "logit scale, deviation over resamples of the patients"
PAIRS = "paired logit-DeLong, clustered by patient, of all pairs of groups at once (Bonferroni)"

METHODS = {
    AREA: (
        *("auc", "auc_positive", "auc_negative"),
        *("mean_auc", "mean_auc_positive", "mean_auc_negative"),
        *("AUC", "AUC, positive prompt", "AUC, negative prompt", "slices", "probe"),
    ),
    PAIRS: ("gap",),
    SHARE: (
        *("accuracy", "mean_accuracy", "ACC", "sensitivity", "specificity", "pointing game"),
        *("R@1", "R@5", "R@10", "R@50", "R@100", "Recall"),
    ),
    LOGIT: ("average_precision",),
    RESAMPLED: (*("brier", "CNR", "signed CNR", "mIoU", "mIoU over 0.1–0.5", "MedR", "MRR"),),
}
"""By method the measures, by their names in ``metrics.json``."""


def method_of(measure: str) -> str:
    """The method of a measure's interval: of "AUC of Edema", and of "sentence to image R@10"."""
    if measure.startswith(OF_FINDING):
        return AREA
    found = (method for method, names in METHODS.items() if measure in names)
    last = measure.rsplit(" ", 1)[-1]
    tail = (method for method, names in METHODS.items() if last in names)
    return next(found, next(tail, RESAMPLED))


def interval_methods() -> dict[str, str]:
    """By measure the method of its interval."""
    return {name: method for method, names in METHODS.items() for name in names}
