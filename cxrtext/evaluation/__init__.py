"""What a checkpoint is worth: zero-shot classification, grounding and retrieval."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.evaluation.classification.calibration import (
        Calibration,
        brier_score,
        expected_calibration_error,
        fit_platt,
        fit_temperature,
        log_loss,
        reliability_bins,
    )
    from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts, read_prompts
    from cxrtext.evaluation.classification.subgroups import age_bands, slice_aucs
    from cxrtext.evaluation.classification.zero_shot import prompt_embeddings, score_differences
    from cxrtext.evaluation.evaluate import evaluate
    from cxrtext.evaluation.grounding.boxes import box_mask, region_boxes, region_of_interest_align
    from cxrtext.evaluation.grounding.phrases import (
        COMMON_THRESHOLDS,
        PAPER_THRESHOLDS,
        contrast_to_noise,
        heat_map,
        mean_iou,
        overlap_by_threshold,
        pointing_game,
        smooth_grid,
    )
    from cxrtext.evaluation.intervals.bootstrap import (
        interval,
        paired_difference,
        resample_covering,
        resample_patients,
    )
    from cxrtext.evaluation.intervals.comparison import Comparison, compare
    from cxrtext.evaluation.intervals.multiple import detectable_difference, holm
    from cxrtext.evaluation.intervals.proportions import proportion_interval, wilson_interval
    from cxrtext.evaluation.measure import measure, measure_file
    from cxrtext.evaluation.metrics import (
        accuracy,
        area_under_curve,
        average_precision,
        known_labels,
        precision_recall_curve,
        roc_curve,
        sensitivity_and_specificity,
        weighted_mean,
        weighted_median,
        youden_threshold,
    )
    from cxrtext.evaluation.predictions.file import Predictions, write_predictions
    from cxrtext.evaluation.probes.linear_probe import few_label_aucs, fit_probe, linear_probe
    from cxrtext.evaluation.result import Evaluation
    from cxrtext.evaluation.retrieval.boxes import mean_median_rank, mean_recall
    from cxrtext.evaluation.retrieval.sentences import (
        embedding_ranks,
        positive_ranks,
        rank_metrics,
        retrieval_metrics,
    )
    from cxrtext.evaluation.settings import Settings

__all__ = [
    "CHEX5_PROMPTS",
    "COMMON_THRESHOLDS",
    "PAPER_THRESHOLDS",
    "Calibration",
    "Comparison",
    "Evaluation",
    "Predictions",
    "Prompts",
    "Settings",
    "accuracy",
    "age_bands",
    "area_under_curve",
    "average_precision",
    "box_mask",
    "brier_score",
    "compare",
    "contrast_to_noise",
    "detectable_difference",
    "embedding_ranks",
    "evaluate",
    "expected_calibration_error",
    "few_label_aucs",
    "fit_platt",
    "fit_probe",
    "fit_temperature",
    "heat_map",
    "holm",
    "interval",
    "known_labels",
    "linear_probe",
    "log_loss",
    "mean_iou",
    "mean_median_rank",
    "mean_recall",
    "measure",
    "measure_file",
    "overlap_by_threshold",
    "paired_difference",
    "pointing_game",
    "positive_ranks",
    "precision_recall_curve",
    "prompt_embeddings",
    "proportion_interval",
    "rank_metrics",
    "read_prompts",
    "region_boxes",
    "region_of_interest_align",
    "reliability_bins",
    "resample_covering",
    "resample_patients",
    "retrieval_metrics",
    "roc_curve",
    "score_differences",
    "sensitivity_and_specificity",
    "slice_aucs",
    "smooth_grid",
    "weighted_mean",
    "weighted_median",
    "wilson_interval",
    "write_predictions",
    "youden_threshold",
]

import_on_use(__name__)
