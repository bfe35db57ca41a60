"""Sentences in single images: places, masks, sides and absence, by hand and of an evaluation."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cxrtext.evaluation import evaluate
from cxrtext.evaluation.grounding.boxes import DrawnMask
from cxrtext.evaluation.grounding.phrases import (
    Phrases,
    Sentence,
    Sided,
    measure_phrases,
    phrases_of,
    score_sides,
    sided_phrases,
)
from cxrtext.evaluation.measure import measure_file
from cxrtext.evaluation.predictions.file import write_predictions
from cxrtext.evaluation.rows import ABSENCE, ALL, GROUNDING, MASKS, MEAN_OF_FINDINGS, SIDES, Rows
from cxrtext.images.placement import Placement
from cxrtext.models import load_model
from cxrtext.records.masks import runs_of_mask
from tests.evaluation.conftest import QUICK, images_of_two
from tests.evaluation.test_evaluate_boxes import cohort_of

EFFUSION, PNEUMOTHORAX = "Left pleural effusion.", "Right pneumothorax."


def test_sentences_whose_mirror_is_false() -> None:
    said = {
        0: [("Effusion", "Left effusion."), ("Effusion", "Left effusion.")],
        1: [("Effusion", "Left effusion."), ("Effusion", "Large right effusion.")],
        2: [("Edema", "Edema."), ("Opacity", "Opacity in the RUL.")],
        3: [("Effusion", "Right effusion.")],
        4: [("", "The left lung is clear."), ("", "No left effusion.")],
    }
    reports = {3: ["Bilateral effusions."], 0: ["The heart is large."]}
    assert sided_phrases(said, reports) == [
        Sided(0, "Effusion", "Left effusion.", True),
        Sided(2, "Opacity", "Opacity in the RUL.", False),
    ]


def measured(*sentences: Sentence) -> Rows:
    """Measured as they are, and as they come out of a table."""
    given = Phrases(images_of_two(9), list(sentences))
    rows = measure_phrases(given)
    assert measure_phrases(Phrases.from_table(given.to_table())) == rows
    return rows


def test_figures_beside_their_controls_by_hand() -> None:
    nan = math.nan
    values = [(1.0, 0.5), (0.0, 0.5), (0.5, 0.25), (1.0, 0.75), (nan, 0.5)]
    rows = measured(
        *(Sentence(r, GROUNDING, "AB"[r // 2 % 2], "x", "pointing game", value, control)
          for r, (value, control) in enumerate(values)),
        *(Sentence(r, GROUNDING, "A", "x", "CNR", value)
          for r, value in enumerate((2.0, 4.0, nan, nan, nan))),
    )  # fmt: skip
    whole = rows.of(GROUNDING, "mean of sentences")
    assert whole["pointing game"] == 2.5 / 4
    assert whole["pointing game, other patients"] == 2 / 4
    assert whole["pointing game, gain over other patients"] == 0.5 / 4
    assert whole["CNR"] == 3
    assert "CNR, other patients" not in whole
    assert whole["sentences"] == whole["images"] == 5
    row = rows.find(GROUNDING, "mean of sentences", "pointing game")
    assert row is not None
    assert (row.n, row.method) == (4, "Wilson, clustered by patient")
    each = [rows.value(GROUNDING, name, "pointing game") or 0 for name in "AB"]
    assert each == [1 / 2, 3 / 4]
    assert rows.value(GROUNDING, MEAN_OF_FINDINGS, "pointing game") == np.mean(each)


def test_measures_with_a_truth_are_ranked_by_hand() -> None:
    lefts, values, drawn = (True, True, False, False), (1.0, -2.0, 1.0, -1.0), (0.0, 1.0, 1.0, -3.0)
    rows = measured(
        *(
            Sentence(r, SIDES, "Effusion", "x", "AUC of the side", value, control, left)
            for r, (left, value, control) in enumerate(zip(lefts, values, drawn, strict=True))
        )
    )
    one = rows.of(SIDES, "Effusion")
    # Of four pairs of a left and a right one: 1 = 1 is a half, and 1 > -1.
    assert one["AUC of the side"] == 1.5 / 4
    assert one["AUC of the side, other patients"] == 2.5 / 4
    assert (one["left"], one["right"], one["images"]) == (2, 2, 4)
    alone = measured(
        *(Sentence(r, SIDES, "", "x", "AUC of the side", 1.0, truth=True) for r in (0, 1))
    )
    assert alone.value(SIDES, ALL, "AUC of the side") is None
    assert alone.groups(SIDES) == [ALL]


def test_findings_that_always_have_a_box_are_apart() -> None:
    def looked(findings: str) -> Rows:
        told = zip(findings, (2.0, 1.0, 0.0, 0.0), (True, False, True, True), strict=True)
        return measured(
            *(Sentence(r, ABSENCE, f, "x", "AUC", v, truth=p) for r, (f, v, p) in enumerate(told))
        )

    found = looked("AABB")
    assert found.value(ABSENCE, ALL, "AUC") == found.value(ABSENCE, MEAN_OF_FINDINGS, "AUC") == 1
    assert [found.count(ABSENCE, name, "with a box") for name in (ALL, "B")] == [1, 2]
    # Where no finding has both, all of them count.
    apart = looked("ABAA")
    assert apart.value(ABSENCE, ALL, "AUC") == 1 / 3
    assert MEAN_OF_FINDINGS not in apart.groups(ABSENCE)


def test_a_wording_that_scores_high_everywhere_is_no_evidence_of_sides(checkpoint: Path) -> None:
    """Sides drawn at random, of two wordings."""
    model = load_model(checkpoint)
    generator = torch.Generator().manual_seed(2)
    cohort = cohort_of([f"{number:03}" for number in range(120)])
    shape = (120, 4, model.spec.dimension)
    regions = torch.nn.functional.normalize(torch.randn(shape, generator=generator), dim=-1)
    cohort = replace(cohort, regions=regions.half())
    told = {True: "Left pleural effusion.", False: "Right lower lobe opacity."}
    phrases = [Sided(row, "", told[row % 2 == 0], row % 2 == 0) for row in range(120)]
    found = measure_phrases(phrases_of(cohort, score_sides(model, cohort, phrases)))
    figures = {
        "AUC of the side": 0.5,
        "AUC of the side, other patients": 0.5,
        "above its mirror, gain over other patients": 0.0,
        "peak on its side, gain over other patients": 0.0,
    }
    for measure, chance in figures.items():
        row = found.find(SIDES, ALL, measure)
        assert row is not None
        assert row.ends is not None
        assert row.ends[0] < chance < row.ends[1], measure


def test_a_mask_goes_along_with_its_picture() -> None:
    mask = np.zeros((4, 6), dtype=bool)
    mask[0, :2] = True
    drawn = DrawnMask(runs_of_mask(mask), 4, 6, None)
    assert (drawn.shown(4, 6) == mask).all()
    assert (drawn.shown(8, 12) == mask.repeat(2, axis=0).repeat(2, axis=1)).all()
    turned = Placement(4, 6, 6, 4, transposed=True, mirrored=True)
    assert (replace(drawn, placement=turned).shown(6, 4) == mask.T[:, ::-1]).all()
    # Drawn on a copy of the picture as it is shown: it stays as it is.
    upright = DrawnMask(runs_of_mask(mask.T), 6, 4, turned)
    assert (upright.shown(6, 4) == mask.T).all()


def test_an_evaluation_has_them(checkpoint: Path, masked: Path, tmp_path: Path) -> None:
    result = evaluate(checkpoint, masked, settings=QUICK)
    rows = result.rows
    # Validation images choose the threshold of Dice.
    assert (rows.value(MASKS, ALL, "pixel AUROC") or 0) > 0.5
    assert (rows.value(MASKS, ALL, "Dice") or 0) > 0.2
    assert rows.value(MASKS, ALL, "Dice, gain over other patients") is not None
    assert rows.value(SIDES, ALL, "above its mirror") is not None
    assert (rows.value(ABSENCE, "Pleural Effusion", "AUC") or 0) > 0.9
    assert result.predictions is not None
    write_predictions(tmp_path / "p.parquet", result.predictions, sentences=False)
    assert measure_file(tmp_path / "p.parquet").rows == rows
