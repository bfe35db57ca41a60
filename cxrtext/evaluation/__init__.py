"""What a checkpoint is worth: zero-shot classification, grounding and retrieval."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.evaluation.binary import known_labels
    from cxrtext.evaluation.bootstrap import (
        interval,
        paired_difference,
        resample_covering,
        resample_patients,
    )
    from cxrtext.evaluation.box_mask import box_mask
    from cxrtext.evaluation.box_retrieval import (
        box_sentence_retrieval,
        mean_median_rank,
        mean_recall,
    )
    from cxrtext.evaluation.by_finding import mean_by_finding
    from cxrtext.evaluation.calibration import Calibration, fit_platt, fit_temperature, log_loss
    from cxrtext.evaluation.classification import (
        area_under_curve,
        prompt_embeddings,
        score_differences,
    )
    from cxrtext.evaluation.cohort_retrieval import embedding_ranks
    from cxrtext.evaluation.compare import Comparison, compare
    from cxrtext.evaluation.curves import (
        accuracy,
        average_precision,
        precision_recall_curve,
        roc_curve,
        sensitivity_and_specificity,
        sensitivity_threshold,
        youden_threshold,
    )
    from cxrtext.evaluation.few_labels import few_label_aucs, few_label_rows
    from cxrtext.evaluation.grounding import (
        COMMON_THRESHOLDS,
        PAPER_THRESHOLDS,
        contrast_to_noise,
        contrast_to_noise_by_box,
        mean_iou,
        overlap_by_threshold,
        pointing_game,
    )
    from cxrtext.evaluation.heat_map import heat_map, smooth_grid
    from cxrtext.evaluation.probe import fit_probe, linear_probe
    from cxrtext.evaluation.prompts import CHEX5_PROMPTS, Prompts, read_prompts
    from cxrtext.evaluation.region_align import region_boxes, region_of_interest_align
    from cxrtext.evaluation.reliability import (
        brier_score,
        expected_calibration_error,
        reliability_bins,
    )
    from cxrtext.evaluation.result import Evaluation
    from cxrtext.evaluation.retrieval import (
        positive_ranks,
        rank_metrics,
        retrieval_metrics,
    )
    from cxrtext.evaluation.run import evaluate
    from cxrtext.evaluation.settings import Settings
    from cxrtext.evaluation.slices import age_bands, slice_aucs
    from cxrtext.evaluation.weighted import (
        weighted_accuracy,
        weighted_auc,
        weighted_average_precision,
        weighted_mean,
        weighted_median,
        weighted_recall,
    )

__all__ = [
    "CHEX5_PROMPTS",
    "COMMON_THRESHOLDS",
    "PAPER_THRESHOLDS",
    "Calibration",
    "Comparison",
    "Evaluation",
    "Prompts",
    "Settings",
    "accuracy",
    "age_bands",
    "area_under_curve",
    "average_precision",
    "box_mask",
    "box_sentence_retrieval",
    "brier_score",
    "compare",
    "contrast_to_noise",
    "contrast_to_noise_by_box",
    "embedding_ranks",
    "evaluate",
    "expected_calibration_error",
    "few_label_aucs",
    "few_label_rows",
    "fit_platt",
    "fit_probe",
    "fit_temperature",
    "heat_map",
    "interval",
    "known_labels",
    "linear_probe",
    "log_loss",
    "mean_by_finding",
    "mean_iou",
    "mean_median_rank",
    "mean_recall",
    "overlap_by_threshold",
    "paired_difference",
    "pointing_game",
    "positive_ranks",
    "precision_recall_curve",
    "prompt_embeddings",
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
    "sensitivity_threshold",
    "slice_aucs",
    "smooth_grid",
    "weighted_accuracy",
    "weighted_auc",
    "weighted_average_precision",
    "weighted_mean",
    "weighted_median",
    "weighted_recall",
    "youden_threshold",
]

import_on_use(__name__)
