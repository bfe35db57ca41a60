"""Faults that tests must notice: each is put into a copy of the source, and tests must then fail.

Every entry is a likely slip in mathematics.  ``python tests/test_mutants.py [WORDS]`` prints which
test notices each of those whose name has the words, or all.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault.

    Args:
        name: What is wrong with it.
        path: The file, below ``cxrtext``.
        right: What stands there, once.
        wrong: What is put in its place.
        killers: Tests, below ``tests``, of which one must fail.
    """

    name: str
    path: str
    right: str
    wrong: str
    killers: tuple[str, ...]


STEP = "training/test_training_step.py"
TEXTS = "models/test_text_encoder.py"
TWO = "training/test_training_distributed.py::test_two_processes_have_the_gradients_of_one"

MUTANTS = (
    # datasets
    Mutant(
        "a finding that half of the readers see, as one that most see",
        "datasets/importing/formats/vindr.py",
        "2 * seen > len(cast)",
        "2 * seen >= len(cast)",
        ("datasets/test_import_public_sets.py::test_votes",),
    ),
    Mutant(
        "masks of SIIM read along the rows",
        "datasets/importing/formats/siim.py",
        "return runs_of_mask(mask_of_runs([*counts, rest], height, width))",
        "return runs_of_mask(mask_of_runs([*counts, rest], width, height).T)",
        ("datasets/test_import_public_sets.py::test_runs_of_siim_are_read_as_its_users_read_them",),
    ),
    Mutant(
        "boxes of PadChest-GR as shares of the height alone",
        "datasets/importing/formats/padchest_gr.py",
        "place = (x * width, y * height, w * width, h * height)",
        "place = (x * height, y * height, w * height, h * height)",
        ("datasets/test_import_public_sets.py::test_padchest_gr",),
    ),
    Mutant(
        "a set that overrules a header that speaks",
        "datasets/admission/public.py",
        "if not said.first(keyword) or",
        "if said.texts is not None or",
        (
            "datasets/test_import_public_sets.py::"
            "test_what_a_set_says_leaves_a_header_that_speaks_alone",
        ),
    ),
    # models/features, jobs/encode
    Mutant(
        "regions pooled by whole cells instead of the area that they share",
        "models/features/feature_map.py",
        "(ends - starts).clamp_min(0) / size",
        "((ends - starts) > 0).double() / ((ends - starts) > 0).sum(1, keepdim=True)",
        ("models/test_feature_map.py",),
    ),
    Mutant(
        "components of regions from which no mean was taken",
        "models/features/feature_map.py",
        "covariance = products / count - torch.outer(mean, mean)",
        "covariance = products / count",
        ("models/test_feature_map.py",),
    ),
    Mutant(
        "a map of features that is fitted to held-out images, too",
        "jobs/encode/begin.py",
        'if record.split != "train":',
        'if record.split == "none":',
        ("jobs/test_job_encode.py::test_the_map_is_fitted_to_training_images_alone",),
    ),
    Mutant(
        "views of an image that are drawn by its place in the batch",
        "jobs/encode/encoder.py",
        "    for name in names:\n        digest",
        "    for name in map(str, range(len(names))):\n        digest",
        (
            "jobs/test_job_encode.py::test_views_follow_from_the_name_of_an_image_and_not_from_its_company",
        ),
    ),
    # models/backbones
    Mutant(
        "registers that are not counted",
        "models/backbones/table.py",
        "return 1 + int(config.num_register_tokens)",
        "return 1",
        ("models/backbones/test_backbone_grids.py",),
    ),
    Mutant(
        "a grid read by columns",
        "models/backbones/backbone.py",
        "regions = state.permute(0, 2, 3, 1)",
        "regions = state.permute(0, 3, 2, 1)",
        ("models/backbones/test_backbone_grids.py",),
    ),
    Mutant(
        "positions that are interpolated by nobody",
        "models/backbones/table.py",
        'return {"interpolate_pos_encoding": size != config.image_size}',
        "return {}",
        ("models/backbones/test_backbone_grids.py",),
    ),
    Mutant(
        "std and mean in the wrong order",
        "models/backbones/backbone.py",
        "(images.float() - self.mean) / self.std",
        "images.float() / self.std - self.mean",
        ("models/backbones/test_backbone_grids.py",),
    ),
    Mutant(
        "two roundings of a center crop",
        "images/preprocessing.py",
        'return (self.resize - self.crop) % 2 if self.fit == "center" else 0',
        "return 0",
        ("models/backbones/test_backbone_preprocessing.py",),
    ),
    Mutant(
        "ConvNeXT's crop at any size",
        "models/backbones/processor.py",
        "if size >= _UNDISTORTED:",
        "if size > 2 * _UNDISTORTED:",
        ("models/backbones/test_backbone_preprocessing.py",),
    ),
    # evaluation/verdicts
    Mutant(
        "a conformal quantile of n instead of n + 1 images",
        "evaluation/verdicts/fit.py",
        "RATE / k * (len(ordered) + 1)",
        "RATE / k * len(ordered)",
        ("evaluation/test_verdicts.py::test_quantiles_by_hand",),
    ),
    Mutant(
        "a denial judged by the evidence of the finding",
        "evaluation/verdicts/judge.py",
        "tails.auc, -value, low, high",
        "tails.auc, value, low, high",
        ("evaluation/test_verdicts.py::test_verdicts",),
    ),
    # index/features/scoring.py and similarity
    Mutant(
        "query map turned round in kept scores",
        "index/features/scoring.py",
        "(model.query.weight.T @ model.query.weight)",
        "(model.query.weight @ model.query.weight.T)",
        ("index/test_index_search.py::test_scores_are_the_model_s",),
    ),
    Mutant(
        "kept scores without the root of D",
        "index/features/scoring.py",
        "chosen @ regions.mT / math.sqrt(chosen.shape[-1])",
        "chosen @ regions.mT",
        ("index/test_index_search.py::test_scores_are_the_model_s",),
    ),
    Mutant(
        "soft maximum without log N",
        "models/similarity.py",
        "(torch.logsumexp(scaled, dim=-1) - math.log(scaled.shape[-1])) / lam",
        "torch.logsumexp(scaled, dim=-1) / lam",
        ("models/test_similarity.py",),
    ),
    Mutant(
        "mean region not normalized",
        "models/similarity.py",
        "F.normalize(full_precision(regions).mean(dim=1), dim=-1).T",
        "full_precision(regions).mean(dim=1).T",
        ("models/test_similarity_forms.py::test_every_form_equals_the_loop",),
    ),
    Mutant(
        "bags not normalized where sentences are few",
        "models/similarity.py",
        "torch.linalg.vecdot(bags, full_precision(texts)) / norms",
        "torch.linalg.vecdot(bags, full_precision(texts))",
        ("models/test_similarity_forms.py::test_every_form_equals_the_loop",),
    ),
    Mutant(
        "score of bags summed and not averaged",
        "models/similarity.py",
        "return (soft + non_local_at(critical, bags, texts)) / 2",
        "return soft + non_local_at(critical, bags, texts)",
        ("models/test_similarity_forms.py",),
    ),
    # familiar
    Mutant(
        "distance along the free directions without their variances",
        "models/familiar.py",
        "(along**2 / self.variances).sum(axis=1)",
        "(along**2 / self.rest).sum(axis=1)",
        ("models/test_familiar.py",),
    ),
    Mutant(
        "limit from the images that were fitted",
        "models/familiar.py",
        "fit_gaussian(values[fold != one])",
        "fit_gaussian(values)",
        ("models/test_familiar.py",),
    ),
    Mutant(
        "words counted by sentence and not by study",
        "models/familiar.py",
        "studies[word].add(study)",
        "studies[word].add(str(len(studies[word])))",
        ("models/test_familiar.py",),
    ),
    # objectives
    Mutant(
        "correction not divided by 1 - eta",
        "objectives/debiasing.py",
        "marginal + rest - torch.log1p(-eta)",
        "marginal + rest",
        ("objectives/test_contrastive.py",),
    ),
    Mutant(
        "gradient through the floor's gamma",
        "objectives/debiasing.py",
        '_per_row(gamma_sq, rows, "gamma_sq").detach()',
        '_per_row(gamma_sq, rows, "gamma_sq")',
        ("objectives/test_contrastive.py::test_no_gradient_reaches_gamma_through_the_floor",),
    ),
    Mutant(
        "gradient through the positive-debiased floor's gamma",
        "objectives/positive_debiasing.py",
        "torch.as_tensor(gamma_sq).detach().to(known)",
        "torch.as_tensor(gamma_sq).to(known)",
        ("objectives/test_positive_debiased.py",),
    ),
    Mutant(
        "uniformity of one side alone",
        "objectives/conditional.py",
        "(_uniformity(x, t) + _uniformity(y, t)) / 2",
        "_uniformity(x, t)",
        ("objectives/test_conditional_objectives.py",),
    ),
    Mutant(
        "weights of hard negatives held still",
        "objectives/debiasing.py",
        "log_weights(beta * rows.negatives,",
        "log_weights(beta * rows.negatives.detach(),",
        ("objectives/test_every_objective.py::test_gradients",),
    ),
    Mutant(
        "uncertain labels meet",
        "objectives/contrastive.py",
        "(labels == 1).float() @ (others == 1).float().T > 0",
        "(labels != 0).float() @ (others != 0).float().T > 0",
        ("objectives/test_false_negatives.py",),
    ),
    # the objectives as training uses them
    Mutant(
        "directions weighed by their sizes",
        "training/losses/directions.py",
        "part.losses * (total / (len(terms) * len(part.losses)))",
        "part.losses",
        ("training/test_training_objective.py",),
    ),
    Mutant(
        "an image's other sentences as its negatives",
        "training/losses/directions.py",
        "others = forward.positive[:, None] == first",
        "others = (forward.positive[:, None] == first) & False",
        ("training/test_training_objective.py",),
    ),
    Mutant(
        "an uncertain label is a finding",
        "training/losses/loss_data.py",
        "values[finding] == 1 for finding",
        "values[finding] in (1, -1) for finding",
        ("training/test_training_objective_extras.py",),
    ),
    Mutant(
        "metadata standardized by all rows",
        "training/losses/metadata.py",
        "mean, deviation = values[fit].mean(), values[fit].std()",
        "mean, deviation = values.mean(), values.std()",
        ("training/test_training_objective_extras.py",),
    ),
    # several processes
    Mutant(
        "every process answers for all of gamma",
        "training/step.py",
        "constant + (gamma_sq - constant) / world",
        "gamma_sq",
        (TWO,),
    ),
    Mutant(
        "texts of the loss gathered as if each process made something else of them",
        "training/step.py",
        "_rows(gather_same(texts, sizes, rank), batch.text_of)",
        "_rows(gather_shared(texts, sizes, rank), batch.text_of)",
        (TWO,),
    ),
    Mutant(
        "scores gathered as if each process made something else of them",
        "training/step.py",
        "gather_same(columns.T.contiguous(), [len(regions)] * world, rank).T",
        "gather_shared(columns.T.contiguous(), [len(regions)] * world, rank).T",
        (TWO,),
    ),
    # the step
    Mutant(
        "language-model loss not divided by the masked pieces",
        "training/step.py",
        "arguments.mlm_weight / max(1, masked)",
        "arguments.mlm_weight",
        (f"{STEP}::test_a_language_model_loss_is_the_mean_of_its_masked_pieces",),
    ),
    Mutant(
        "second pass with another dropout",
        "training/step.py",
        "torch.manual_seed(seed)  # the dropout of the first pass",
        "torch.manual_seed(seed + 1)",
        (f"{STEP}::test_dropout_is_the_same_in_both_passes",),
    ),
    Mutant(
        "first pass of micro-batches teaches the batch norms",
        "training/step.py",
        "norm.momentum = 0.0",
        "norm.momentum = norm.momentum",
        (f"{STEP}::test_batch_norms_learn_from_each_part_once_and_in_order",),
    ),
    Mutant(
        "gradient of one part taken for another",
        "training/step.py",
        "first[place] += len(embedded)",
        "first[place] += 0",
        (f"{STEP}::test_a_language_model_loss_in_parts_is_that_of_the_whole",),
    ),
    Mutant(
        "gamma not bounded after the step",
        "training/loop/job.py",
        "    learner.bound()\n",
        "",
        (f"{STEP}::test_gamma_comes_back_from_its_cap",),
    ),
    Mutant(
        "average without its warm start",
        "training/loop/optimization.py",
        "min(self.decay, (1 + step) / (10 + step))",
        "self.decay",
        (f"{STEP}::test_an_average_begins_with_the_weights_and_not_where_they_started",),
    ),
    Mutant(
        "average the wrong way round",
        "training/loop/optimization.py",
        "torch._foreach_lerp_(averages, list(current.values()), 1 - decay)",
        "torch._foreach_lerp_(averages, list(current.values()), decay)",
        (f"{STEP}::test_an_average_begins_with_the_weights_and_not_where_they_started",),
    ),
    Mutant(
        "biases decay",
        "training/loop/optimization.py",
        "(weight_decay, [p for p in new if p.ndim > 1]),",
        "(weight_decay, [p for p in new if p.ndim >= 1]),",
        (f"{STEP}::test_parameters_are_grouped",),
    ),
    Mutant(
        "gradients clipped before the scale is taken out",
        "training/loop/job.py",
        "    learner.scaler.unscale_(learner.optimizer)\n"
        "    norm = float(torch.nn.utils.clip_grad_norm_(learner.parameters(), schedule.clip))\n",
        "    norm = float(torch.nn.utils.clip_grad_norm_(learner.parameters(), schedule.clip))\n"
        "    learner.scaler.unscale_(learner.optimizer)\n",
        ("training/test_loop.py",),
    ),
    Mutant(
        "loss reported without the language-model loss",
        "training/step.py",
        "whole = terms.losses.mean() + arguments.mlm_weight * mlm",
        "whole = terms.losses.mean()",
        (f"{STEP}::test_a_language_model_loss_is_the_mean_of_its_masked_pieces",),
    ),
    # text encoders
    Mutant(
        "padding in the mean over a sentence's pieces",
        "models/text_encoder.py",
        "return (states * weights).sum(dim=1) / weights.sum(dim=1)",
        "return states.mean(dim=1)",
        (f"{TEXTS}::test_states_are_transformers_own",),
    ),
    Mutant(
        "a boolean mask added to an MPNet's scores",
        "models/text_encoder.py",
        'whole and self.family == "mpnet"',
        'whole and self.family == "none"',
        (f"{TEXTS}::test_states_are_transformers_own",),
    ),
    Mutant(
        "positions of a RoBERTa counted from 0",
        "models/text_encoder.py",
        'int(text["pad_token_id"]) - 1',
        "0",
        (f"{TEXTS}::test_the_longest_sentence_has_a_position",),
    ),
    Mutant(
        "kept states of one pooling taken for the other",
        "training/data/locked_features.py",
        'what = "" if kind == usual else " ".join(kind)',
        'what = ""',
        ("training/test_text_families.py::test_kept_states_are_pooled_and_kept_apart_by_pooling",),
    ),
    Mutant(
        "a space before the first word of a RoBERTa forgotten",
        "text/tokenizer.py",
        "add_prefix_space=found.add_prefix_space",
        "add_prefix_space=False",
        (
            "text/test_tokenizer_families.py::test_a_space_before_the_first_word_is_read_as_the_folder_says",
        ),
    ),
    # augmentation
    Mutant(
        "brightness and contrast only raised",
        "images/augment.py",
        "torch.rand(3, count, generator=generator) * 2 - 1",
        "torch.rand(3, count, generator=generator)",
        ("images/test_image_augment.py",),
    ),
    Mutant(
        "the last window never cut",
        "images/augment.py",
        "torch.randint(size - crop + 1, (2, count), generator=generator)",
        "torch.randint(max(1, size - crop), (2, count), generator=generator)",
        ("images/test_image_augment.py",),
    ),
    Mutant(
        "colors of views only raised",
        "images/simclr.py",
        "around = u[4:8] * 2 - 1",
        "around = u[4:8]",
        ("images/test_simclr.py",),
    ),
    # images
    Mutant(
        "deep codestreams clipped",
        "images/dicom/pixels.py",
        "if exact and stream.precision > pixels.stored:",
        "if exact and stream.precision > pixels.allocated:",
        ("images/test_image_dicom_odd.py",),
    ),
    Mutant(
        "mirrored images left as they lie",
        "images/dicom/orientation.py",
        'return transposed, across == "R", inverted',
        "return transposed, False, inverted",
        ("images/test_image_placement.py",),
    ),
    Mutant(
        "boxes of turned images left where they were",
        "images/placement.py",
        "return np.where(flips, 1.0 - share, share)",
        "return np.asarray(share)",
        ("images/test_image_placement.py",),
    ),
    # language
    Mutant(
        "half unknown is known",
        "language/class_probability.py",
        "self.unknown >= MOSTLY_UNKNOWN * self.words",
        "self.unknown > MOSTLY_UNKNOWN * self.words",
        ("language/test_unknown_words.py",),
    ),
    Mutant(
        "window not about the piece",
        "language/scoring/network.py",
        "(place - width // 2).clamp(0, length - width)",
        "place.clamp(0, length - width)",
        ("language/test_masked_copies.py",),
    ),
    # measures
    Mutant(
        "a difference of 0 says present",
        "evaluation/metrics.py",
        "right = (values > threshold) == truth",
        "right = (values >= threshold) == truth",
        ("evaluation/test_measures.py",),
    ),
    Mutant(
        "a score at the threshold says present",
        "evaluation/classification/finding.py",
        "right: Floats = ((self.scores > threshold) == self.truth)",
        "right: Floats = ((self.scores >= threshold) == self.truth)",
        ("evaluation/test_evaluate_tasks.py::test_a_resample_of_each_image_once_changes_nothing",),
    ),
    Mutant(
        "ties are won",
        "evaluation/retrieval/sentences.py",
        "ahead = values >= best[:, None]",
        "ahead = values > best[:, None]",
        ("evaluation/test_measures.py",),
    ),
    Mutant(
        "ties lose in resampled areas",
        "evaluation/metrics.py",
        "present * (below - absent / 2)",
        "present * (below - absent)",
        ("evaluation/test_bootstrap.py",),
    ),
    Mutant(
        "interval of one tail",
        "evaluation/intervals/bootstrap.py",
        "tail = (1 - level) / 2",
        "tail = 1 - level",
        ("evaluation/test_bootstrap.py",),
    ),
    Mutant(
        "percentiles of few patients too close together",
        "evaluation/intervals/bootstrap.py",
        "reach = sqrt(patients / (patients - 1)) * quantile(level, patients - 1)",
        "reach = quantile(level)",
        ("evaluation/test_bootstrap.py",),
    ),
    Mutant(
        "a tie of placements is won",
        "evaluation/intervals/delong.py",
        '("left", "right")]',
        '("right", "right")]',
        ("evaluation/test_delong.py",),
    ),
    Mutant(
        "patients with both kinds of image have no covariance",
        "evaluation/intervals/delong.py",
        "[sqrt(c) * (present + absent), sqrt(a - c) * present, sqrt(b - c) * absent]",
        "[0 * present, sqrt(a) * present, sqrt(b) * absent]",
        ("evaluation/test_delong.py",),
    ),
    Mutant(
        "differences of AUCs as if models were independent",
        "evaluation/intervals/delong.py",
        "correlation = covariance(one, other) / both if both else 0.0",
        "correlation = 0.0",
        ("evaluation/test_delong.py",),
    ),
    Mutant(
        "Holm's adjusted values fall again",
        "evaluation/intervals/multiple.py",
        "np.minimum(np.maximum.accumulate(stepped), 1.0)",
        "np.minimum(stepped, 1.0)",
        ("evaluation/test_delong.py",),
    ),
    Mutant(
        "shares as if images of a patient were independent",
        "evaluation/intervals/proportions.py",
        "return self.rows / self.design_effect",
        "return float(self.rows)",
        ("evaluation/test_proportions.py",),
    ),
    Mutant(
        "the gap of groups as if of one pair",
        "evaluation/classification/subgroups.py",
        "each = 1 - (1 - level) / len(pairs)",
        "each = level",
        ("evaluation/test_slices.py",),
    ),
    Mutant(
        "noninferior by the wrong end of ranks",
        "evaluation/intervals/comparison.py",
        "noninferior(-one.high if smaller else one.low, margin)",
        "noninferior(one.low, margin)",
        ("evaluation/test_compared.py",),
    ),
    Mutant(
        "net benefit at the inverse odds",
        "evaluation/classification/probabilities.py",
        "-cut / (1 - cut)",
        "-(1 - cut) / cut",
        ("evaluation/test_operating.py",),
    ),
    Mutant(
        "the patient's left at the left of the picture",
        "evaluation/grounding/sides.py",
        "(place > 0) == left",
        "(place < 0) == left",
        ("evaluation/test_sides_masks_absence.py::test_the_side_of_a_peak",),
    ),
    Mutant(
        "runs of a mask along its rows",
        "records/masks.py",
        "np.asarray(mask, dtype=np.bool_).T.ravel()",
        "np.asarray(mask, dtype=np.bool_).ravel()",
        ("records/test_masks.py",),
    ),
    Mutant(
        "noise of one side alone",
        "evaluation/grounding/phrases.py",
        "math.sqrt(variance_in + variance_out)",
        "math.sqrt(2 * variance_in)",
        ("evaluation/test_grounding_measures.py",),
    ),
    Mutant(
        "a pixel at the threshold is outside",
        "evaluation/grounding/phrases.py",
        'np.searchsorted(cuts, values.astype(np.float64), side="right")',
        'np.searchsorted(cuts, values.astype(np.float64), side="left")',
        ("evaluation/test_grounding_measures.py",),
    ),
    Mutant(
        "score difference without gamma",
        "evaluation/classification/prompt_scores.py",
        "scaled = model.gamma_sq * means.view(",
        "scaled = means.view(",
        ("evaluation/test_measures.py", "evaluation/test_evaluate_tasks.py"),
    ),
    Mutant(
        "validation counts the last batch that is not whole",
        "training/validation.py",
        "if len(rows) == min(arguments.batch, len(examples)):",
        "if len(rows) > 1:",
        ("training/test_training_parts.py::test_a_validation_takes_its_loss_from_whole_batches",),
    ),
    Mutant(
        "the age of a patient's last image in table 1",
        "evaluation/documents/table_one.py",
        "found.get(patient) or cells[int(row)]",
        'cells[int(row)] or found.get(patient, "")',
        ("evaluation/test_documents.py::test_table_one_by_hand",),
    ),
    Mutant(
        "a flow of images that need not add up",
        "evaluation/documents/flow.py",
        "if one.counts.images - left != after.counts.images:",
        "if one.counts.images - left < after.counts.images:",
        ("evaluation/test_documents.py::test_figures_that_do_not_add_up_are_refused",),
    ),
    Mutant(
        "a single patient's slope has an interval",
        "evaluation/classification/probabilities.py",
        "    if groups < 2:",
        "    if groups < 1:",
        ("evaluation/test_operating.py::test_a_single_patient_has_no_interval",),
    ),
    Mutant(
        "ages that nobody reached",
        "evaluation/classification/subgroups.py",
        "if 0 <= years <= OLDEST else",
        "if 0 <= years < math.inf else",
        ("evaluation/test_documents.py::test_table_one_counted_again",),
    ),
    Mutant(
        "another program's texts are true",
        "evaluation/predictions/columns.py",
        "if values.dtype != np.bool_ and not all(",
        "if values.dtype == np.bool_ and not all(",
        ("evaluation/test_predictions.py::test_mistakes_of_another_program",),
    ),
    Mutant(
        "a row of LaTeX that begins with a bracket",
        "evaluation/report/export.py",
        'if cells[0].startswith(("[", "*")):',
        'if cells[0].startswith("*"):',
        ("evaluation/test_export.py::test_latex_is_escaped_and_whole",),
    ),
    # slips that tests once let through
    Mutant(
        "a between without its lower end",
        "index/search/filter.py",
        'low = Test(column, ">=", (self',
        'low = Test(column, ">", (self',
        ("index/test_index_filter.py::test_between_takes_both_of_its_ends_in",),
    ),
    Mutant(
        "of equal scores the one that was scored first",
        "index/search/ranking.py",
        "while best and -best[0][0] > limit:",
        "while best and -best[0][0] >= limit:",
        (
            "index/test_index_search.py::test_equal_scores_stand_in_the_order_of_their_places_whenever_they_were_scored",
        ),
    ),
    Mutant(
        "a query as usual as its most usual sentence",
        "index/search/ranking.py",
        "novelty(torch.cat(said)).max()",
        "novelty(torch.cat(said)).min()",
        ("index/test_index_fast.py::test_one_unlike_sentence_of_a_query_is_enough_to_look_deeper",),
    ),
    Mutant(
        "other studies of a patient as wrong answers",
        "evaluation/retrieval/sentences.py",
        "related[number].update(of_patient[patient])",
        "related[number].update(places)",
        (
            "evaluation/test_ranks.py::test_a_sentence_is_right_for_its_study_and_not_wrong_for_others_of_the_patient",
        ),
    ),
    Mutant(
        "the better of both sides that a report names",
        "evaluation/verdicts/fit.py",
        "right_side.append((min(sign",
        "right_side.append((max(sign",
        (
            "evaluation/test_verdicts.py::test_of_a_report_of_both_sides_the_side_that_its_image_shows_less_counts",
        ),
    ),
    Mutant(
        "variance of a mean that is seen in no patient, too large",
        "evaluation/intervals/delong.py",
        "sum(one.apart for one in areas) / len(areas) ** 2",
        "sum(one.apart for one in areas) / len(areas)",
        (
            "evaluation/test_delong.py::test_a_mean_with_a_perfect_finding_is_as_sure_as_its_findings_together",
        ),
    ),
    Mutant(
        "a text at the threshold is removed",
        "training/losses/directions.py",
        "same = similarity > section.threshold",
        "same = similarity >= section.threshold",
        ("training/test_training_objective.py::test_a_text_at_the_threshold_stays_a_negative",),
    ),
    Mutant(
        "an anchor is floored by all of its positives",
        "objectives/positive_debiasing.py",
        "(floored & present).any(dim=1)",
        "(floored & present).all(dim=1)",
        (
            "objectives/test_positive_debiased.py::test_an_anchor_counts_as_floored_as_soon_as_one_of_its_positives_does",
        ),
    ),
    Mutant(
        "an anchor with one negative is not floored",
        "objectives/debiasing.py",
        "floored & (rows.count > 0)",
        "floored & (rows.count > 1)",
        (
            "objectives/test_contrastive.py::test_an_anchor_with_a_single_negative_counts_as_floored",
        ),
    ),
)


def copied(folder: Path, mutant: Mutant | None) -> Path:
    """The source in a folder, with a fault; its text must stand there just once."""
    shutil.copytree(
        ROOT / "cxrtext", folder / "cxrtext", ignore=shutil.ignore_patterns("__pycache__")
    )
    if mutant is not None:
        path = folder / "cxrtext" / mutant.path
        text = path.read_text(encoding="utf-8")
        assert text.count(mutant.right) == 1, f"{mutant.path}: {mutant.right!r} not there once"
        path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    return folder


RUN = """
import sys, pytest, cxrtext
assert cxrtext.__file__.startswith(sys.argv[1]), cxrtext.__file__
sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *sys.argv[2:]]))
"""


def run_tests(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on the source in a folder; the exit status of pytest, and what it said."""
    # A folder of its own: pytest removes those of all but the last few runs, at work or not.
    base = f"--basetemp={folder}-of-tests"
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN, str(folder), base, *(f"tests/{test}" for test in tests)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


def killer(said: str) -> str:
    """The test that failed."""
    failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else ""


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_fault_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    status, said = run_tests(copied(tmp_path, mutant), mutant.killers)
    assert status == pytest.ExitCode.TESTS_FAILED, said[-3000:]
    assert killer(said), said[-3000:]


@pytest.mark.slow
def test_without_a_fault_the_same_tests_pass(tmp_path: Path) -> None:
    tests = sorted({test for mutant in MUTANTS for test in mutant.killers})
    status, said = run_tests(copied(tmp_path, None), tests)
    assert status == pytest.ExitCode.OK, said[-3000:]


def test_every_fault_can_be_put_in() -> None:
    for mutant in MUTANTS:
        text = (ROOT / "cxrtext" / mutant.path).read_text(encoding="utf-8")
        assert text.count(mutant.right) == 1, mutant.name
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def table(words: str) -> int:
    """Print which test notices each fault; returns how many are noticed by none."""
    survived = 0
    for mutant in MUTANTS:
        if words in mutant.name:
            with TemporaryDirectory() as folder:
                status, said = run_tests(copied(Path(folder), mutant), mutant.killers)
            noticed = status == pytest.ExitCode.TESTS_FAILED
            survived += not noticed
            found = killer(said) if noticed else "NONE"
            sys.stdout.write(f"| {mutant.name} | {mutant.path} | {found} |\n")
            sys.stdout.flush()
    return survived


if __name__ == "__main__":
    sys.exit(bool(table(" ".join(sys.argv[1:]))))
