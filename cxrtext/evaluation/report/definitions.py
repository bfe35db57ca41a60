"""One line for each measure."""

DEFINITIONS = {
    "AUC": "the chance that an image with the finding scores above one without; a tie is one half.",
    "AP": "average precision: the sum over steps of recall of step times precision, not "
    "interpolated; of a random order it is the share of images with the finding.",
    "ACC": "the share of images whose higher-scoring prompt is the label.",
    "Sensitivity, specificity": "the shares of images with and without the finding on the right "
    "side of a threshold that validation images chose (the largest sum of both, Youden).",
    "ECE": "expected calibration error: the gap between mean probability and share of positives, "
    "averaged over 15 equal bins by their images. The probability is the logistic of the score "
    "difference (before), of the difference over a temperature (T), or scaled and shifted (Platt).",
    "Brier": "the mean squared difference of probability and label, at temperature T.",
    "CNR": "contrast-to-noise ratio |mean inside − mean outside| / √(variance inside + variance "
    "outside) of the map of region–sentence scores, in original pixels.",
    "Signed CNR": "the same without the bars: below 0 where the map avoids the boxes.",
    "mIoU": "mean over thresholds −1, −0.95, …, 1 of the overlap of {map ≥ threshold} and the "
    "boxes; in the variant the thresholds are 0.1, 0.2, …, 0.5.",
    "Pointing game": "the share of sentences whose map peaks inside a box.",
    "R@K": "the share of queries with a right answer among the first K; ties count against the "
    "model.",
    "MedR": "the median rank of the first right answer; of both directions, the mean of their "
    "medians.",
    "MRR": "the mean of 1 / rank of the first right answer.",
    "Recall": "the mean of R@10, R@50 and R@100 over both directions between boxes and sentences.",
    "Gap": "the AUC of the best group less that of the worst; never below 0, and larger by "
    "chance the smaller the groups.",
    "Probe": "AUC of a logistic regression on the mean region of frozen features, its ridge chosen "
    "on validation images.",
    "Intervals": "in brackets, 95 %: percentiles over resamples of the patients, not of the "
    "images.",
}
"""By name."""
