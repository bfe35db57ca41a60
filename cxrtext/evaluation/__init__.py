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
    from cxrtext.evaluation.classification.multiclass import (
        class_precision,
        confusion_matrix,
        multiclass_accuracy,
        only_class,
        precision_at,
    )
    from cxrtext.evaluation.classification.operating import (
        f1_score,
        likelihood_ratios,
        matthews,
        negative_value,
        operating_point,
        positive_value,
        ratio_of,
        sensitivity_threshold,
    )
    from cxrtext.evaluation.classification.probabilities import net_benefit, recalibration
    from cxrtext.evaluation.classification.prompt_scores import prompt_embeddings, score_differences
    from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts, read_prompts
    from cxrtext.evaluation.classification.subgroups import age_bands, slice_aucs
    from cxrtext.evaluation.evaluate import evaluate
    from cxrtext.evaluation.grounding.absence import measure_absence
    from cxrtext.evaluation.grounding.boxes import box_mask, region_boxes, region_of_interest_align
    from cxrtext.evaluation.grounding.masks import dice_by_threshold, pixel_auroc
    from cxrtext.evaluation.grounding.phrases import (
        COMMON_THRESHOLDS,
        PAPER_THRESHOLDS,
        contrast_to_noise,
        heat_map,
        overlap_by_threshold,
        pointing_game,
        smooth_grid,
    )
    from cxrtext.evaluation.grounding.sides import measure_sides, peak_on_side
    from cxrtext.evaluation.intervals.bootstrap import (
        interval,
        paired_difference,
        resample_patients,
    )
    from cxrtext.evaluation.intervals.comparison import Comparison, compare
    from cxrtext.evaluation.intervals.multiple import detectable_difference, holm
    from cxrtext.evaluation.intervals.proportions import proportion_interval
    from cxrtext.evaluation.measure import measure, measure_file
    from cxrtext.evaluation.metrics import (
        area_under_curve,
        average_precision,
        weighted_mean,
        weighted_median,
        youden_threshold,
    )
    from cxrtext.evaluation.predictions.file import Predictions, write_predictions
    from cxrtext.evaluation.probes.linear_probe import fit_probe, linear_probe
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
    "age_bands",
    "area_under_curve",
    "average_precision",
    "box_mask",
    "brier_score",
    "class_precision",
    "compare",
    "confusion_matrix",
    "contrast_to_noise",
    "detectable_difference",
    "dice_by_threshold",
    "embedding_ranks",
    "evaluate",
    "expected_calibration_error",
    "f1_score",
    "fit_platt",
    "fit_probe",
    "fit_temperature",
    "heat_map",
    "holm",
    "interval",
    "likelihood_ratios",
    "linear_probe",
    "log_loss",
    "matthews",
    "mean_median_rank",
    "mean_recall",
    "measure",
    "measure_absence",
    "measure_file",
    "measure_sides",
    "multiclass_accuracy",
    "negative_value",
    "net_benefit",
    "only_class",
    "operating_point",
    "overlap_by_threshold",
    "paired_difference",
    "peak_on_side",
    "pixel_auroc",
    "pointing_game",
    "positive_ranks",
    "positive_value",
    "precision_at",
    "prompt_embeddings",
    "proportion_interval",
    "rank_metrics",
    "ratio_of",
    "read_prompts",
    "recalibration",
    "region_boxes",
    "region_of_interest_align",
    "reliability_bins",
    "resample_patients",
    "retrieval_metrics",
    "score_differences",
    "sensitivity_threshold",
    "slice_aucs",
    "smooth_grid",
    "weighted_mean",
    "weighted_median",
    "write_predictions",
    "youden_threshold",
]

import_on_use(__name__)
