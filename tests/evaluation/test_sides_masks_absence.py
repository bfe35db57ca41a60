"""Sides, masks and phrases without a box: measures by hand, and out of an evaluation."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score

from cxrtext.evaluation import Evaluation, evaluate
from cxrtext.evaluation.cohort import score_pairs
from cxrtext.evaluation.grounding.absence import AbsenceScores, looked_for, measure_absence
from cxrtext.evaluation.grounding.boxes import Phrase
from cxrtext.evaluation.grounding.masks import (
    DrawnMask,
    MaskValues,
    dice_by_threshold,
    measure_masks,
    pixel_auroc,
    place_masks,
)
from cxrtext.evaluation.grounding.phrases import PAPER_THRESHOLDS
from cxrtext.evaluation.grounding.sides import (
    BOXES,
    REPORTS,
    SidedPhrase,
    SideScores,
    measure_sides,
    peaks_left,
    score_sides,
    sided_phrases,
)
from cxrtext.evaluation.measure import measure_file
from cxrtext.evaluation.metrics import Floats, Truth
from cxrtext.evaluation.predictions.file import write_predictions
from cxrtext.evaluation.rows import ABSENCE, ALL, MASKS, MEAN_OF_FINDINGS, SIDES
from cxrtext.evaluation.settings import Settings
from cxrtext.images.placement import Placement
from cxrtext.models import load_model
from cxrtext.records import Absent, Box
from cxrtext.records.masks import runs_of_mask
from tests.evaluation.conftest import QUICK, images_of_two
from tests.evaluation.test_evaluate_boxes import cohort_of

EFFUSION, PNEUMOTHORAX = "Left pleural effusion.", "Right pneumothorax."


# Sides


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
        SidedPhrase(0, "Effusion", "Left effusion.", True),
        SidedPhrase(2, "Opacity", "Opacity in the RUL.", False),
    ]


def test_the_side_of_a_peak() -> None:
    grid = np.zeros((3, 3))
    assert peaks_left(grid) == 0.5
    grid[1, 2] = 1
    assert peaks_left(np.stack([grid, grid[:, ::-1]], axis=2)).tolist() == [1, 0]
    grid[0, 0] = 1
    assert peaks_left(grid) == 0.5
    grid[0, 1] = 2
    assert peaks_left(grid) == 0.5


def test_sides_by_hand() -> None:
    lefts = [True, True, False, False]
    phrases = [SidedPhrase(row, "Effusion", "x", left) for row, left in enumerate(lefts)]
    own, mirrored = np.array([3.0, 1.0, 2.0, 4.0]), np.array([1.0, 2.0, 2.0, 1.0])
    peaks, elsewhere = np.array([1, 0.5, 0, 1]), np.array([0.5, 0.5, 0.25, 0.25])
    usual, drawn = np.array([1.0, 1.0, 1.0, 2.0]), np.array([1.0, 2.0, 0.0, 5.0])
    above = np.array([0.75, 0.5, 0.5, 0.25])
    scores = (own, mirrored, peaks, usual, drawn, above, elsewhere)
    head = np.array([2.0, 0.0, 1.0, -1.0])  # above the right ones: 2 > 1, 2 > -1, 0 > -1
    given = SideScores(images_of_two(4), phrases, BOXES, *scores, head=head)
    found = measure_sides(given, Settings())
    one = found.of(SIDES, "Effusion")
    # Left less right, less what is usual: 1, -2 for left and 1, -1 for right; of four pairs
    # (1 = 1), (1 > -1) are half and whole.
    assert one["AUC of the side"] == 1.5 / 4
    # Of the images drawn: 0, 1 for left and 1, -3 for right.
    assert one["AUC of the side, other patients"] == 2.5 / 4
    assert one["AUC by the head"] == 3 / 4
    assert one["above its mirror"] == (1 + 0 + 0.5 + 1) / 4
    assert one["above its mirror, other patients"] == 2 / 4
    assert one["above its mirror, gain over other patients"] == 0.5 / 4
    assert one["peak on its side"] == 2.5 / 4
    assert one["peak on its side, gain over other patients"] == 1 / 4
    assert (one["left"], one["right"], one["images"]) == (2, 2, 4)
    again = SideScores.from_table(given.to_table())
    assert measure_sides(again, Settings()) == found


def test_one_side_alone_has_no_auc() -> None:
    phrases = [SidedPhrase(row, "", "x", True) for row in range(3)]
    ones = np.ones(3)
    unknown = [math.nan * ones] * 5  # as where all images are of one patient
    found = measure_sides(
        SideScores(images_of_two(3), phrases, REPORTS, ones, 0 * ones, ones, *unknown), Settings()
    )
    assert found.value(SIDES, ALL, "AUC of the side") is None
    assert found.value(SIDES, ALL, "above its mirror") == 1
    assert found.groups(SIDES) == [ALL]


def test_pairs_are_scored_as_the_whole_matrix(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.evaluation.cohort.PAIRS_AT_ONCE", 3)
    model = load_model(checkpoint)
    cohort = cohort_of(["a", "b", "c", "d"])
    drawn = torch.randn(4, 4, model.spec.dimension, generator=torch.Generator().manual_seed(1))
    cohort = replace(cohort, regions=torch.nn.functional.normalize(drawn, dim=-1).half())
    rows, texts = [3, 0, 0, 2, 3, 1], [EFFUSION, EFFUSION, PNEUMOTHORAX, "x", "x", "x"]
    with torch.inference_mode():
        vectors = model.embed_sentences(texts)
        whole = (model.gamma_sq * model.scores(cohort.regions.float(), vectors)).numpy()
    expected = [whole[place, row] for place, row in enumerate(rows)]
    assert score_pairs(model, cohort, rows, texts) == pytest.approx(expected, abs=1e-4)


def test_a_wording_that_scores_high_everywhere_is_no_evidence_of_sides(checkpoint: Path) -> None:
    """Sides drawn at random, of two wordings."""
    model = load_model(checkpoint)
    generator = torch.Generator().manual_seed(2)
    cohort = cohort_of([f"{number:03}" for number in range(120)])
    shape = (120, 4, model.spec.dimension)
    regions = torch.nn.functional.normalize(torch.randn(shape, generator=generator), dim=-1)
    cohort = replace(cohort, regions=regions.half())
    told = {True: "Left pleural effusion.", False: "Right lower lobe opacity."}
    phrases = [SidedPhrase(row, "", told[row % 2 == 0], row % 2 == 0) for row in range(120)]
    found = measure_sides(score_sides(model, cohort, phrases, REPORTS), Settings())
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


# Masks


def test_dice_by_hand() -> None:
    heat = np.array([[0.9, 0.6], [0.4, math.nan]])
    mask = np.array([[True, False], [True, True]])
    # At 0.5 two pixels of which one is inside of three; at 0 three, two of them inside.
    found = dict(zip(PAPER_THRESHOLDS, dice_by_threshold(heat, mask), strict=True))
    assert (found[0.0], found[0.5], found[0.95]) == (4 / 6, 2 / 5, 0)
    with pytest.raises(ValueError, match="cover a pixel"):
        dice_by_threshold(heat, np.zeros((2, 2)))


def test_dice_and_auroc_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    heat = rng.normal(size=(40, 50)).round(2)  # with ties
    mask = rng.random((40, 50)) < 0.2
    heat[mask] += 0.5
    for cut, dice in zip(PAPER_THRESHOLDS, dice_by_threshold(heat, mask), strict=True):
        assert dice == pytest.approx(f1_score(mask.ravel(), (heat >= cut).ravel()))
    assert pixel_auroc(heat, mask) == pytest.approx(roc_auc_score(mask.ravel(), heat.ravel()))
    heat[:, :10] = math.nan
    seen = ~np.isnan(heat)
    assert pixel_auroc(heat, mask) == pytest.approx(roc_auc_score(mask[seen], heat[seen]))
    assert math.isnan(pixel_auroc(np.full((2, 2), math.nan), np.ones((2, 2))))


def test_a_mask_goes_along_with_its_picture() -> None:
    mask = np.zeros((4, 6), dtype=bool)
    mask[0, :2] = True
    drawn = DrawnMask(runs_of_mask(mask), 4, 6)
    assert (drawn.shown(4, 6, None) == mask).all()
    assert (drawn.shown(8, 12, None) == mask.repeat(2, axis=0).repeat(2, axis=1)).all()
    turned = Placement(4, 6, 6, 4, transposed=True, mirrored=True)
    assert (drawn.shown(6, 4, turned) == mask.T[:, ::-1]).all()
    assert drawn.fits((6, 4), turned)
    assert not drawn.fits((6, 4), None)
    # Drawn on a copy of the picture as it is shown: it stays as it is.
    upright = DrawnMask(runs_of_mask(mask.T), 6, 4)
    assert (upright.shown(6, 4, turned) == mask.T).all()


def test_masks_are_brought_to_their_images() -> None:
    cohort = cohort_of(["files/a.dcm", "b.png"])
    whole, other = runs_of_mask(np.ones((40, 40))), runs_of_mask(np.ones((40, 20)))
    corner = (0.0, 0.0, 5.0, 5.0)
    boxes = [
        Box("b.png", 40, 40, "Edema", " Haze. ", corner, whole),
        Box("b.png", 40, 40, "Other", "Haze.", corner, whole),
        Box("a.jpg", 20, 40, "Edema", "Haze.", corner, other),
        Box("b.png", 40, 40, "Edema", "No mask.", corner),
        Box("none.png", 40, 40, "Edema", "Haze.", corner, whole),
    ]
    (one,), apart = place_masks(boxes, cohort)
    assert (one.row, one.finding, one.text, len(one.masks)) == (1, "Edema", "Haze.", 2)
    assert apart == 1


def test_masks_by_hand() -> None:
    k = len(PAPER_THRESHOLDS)
    dice = np.zeros((4, k))
    dice[0, 10], dice[1, 10], dice[0, 20] = 0.2, 0.4, 0.9
    dice[2] = math.nan
    dice[3, 10] = 0.5  # the validation sentence chooses the eleventh threshold
    given = MaskValues(
        images_of_two(4), [0, 1, 2, 3], ["A", "A", "A", "A"], ["x"] * 4,
        np.array([True, True, True, False]), np.array([0.1, 0.3, 0.0, 0.2]),
        np.array([0.6, 0.8, math.nan, 0.9]), dice,
    )  # fmt: skip
    found = measure_masks(given, QUICK)
    one = found.of(MASKS, ALL)
    assert one["threshold"] == PAPER_THRESHOLDS[10]
    assert one["validation sentences"] == 1
    assert one["Dice"] == pytest.approx(0.3)
    assert one["pixel AUROC"] == pytest.approx(0.7)
    assert (one["best Dice"], one["at"]) == (0.45, PAPER_THRESHOLDS[20])
    assert (one["sentences"], one["undefined"]) == (3, 1)
    assert measure_masks(MaskValues.from_table(given.to_table()), QUICK) == found
    alone = measure_masks(replace(given, measured=np.ones(4, dtype=np.bool_)), QUICK)
    assert {alone.value(MASKS, ALL, name) for name in ("threshold", "Dice")} == {None}


# Phrases without a box


def test_what_was_looked_for() -> None:
    cohort = cohort_of(["a.png", "b.png"])
    phrases = [Phrase(0, "Edema", "Haze.", ((0, 0, 1, 1),))]
    absent = [
        Absent("b.png", 80, 80, "Edema", " Haze. "),
        Absent("a.png", 80, 80, "Edema", "Haze."),  # it has a box, too
        Absent("b.png", 80, 80, "Effusion", "No pleural effusion."),
        Absent("c.png", 80, 80, "Edema", "Haze."),
    ]
    found, denying = looked_for(phrases, absent, cohort)
    told = [(one.row, one.text, one.present) for one in found]
    assert told == [(0, "Haze.", True), (1, "Haze.", False)]
    assert denying == 1


def looked(
    findings: list[str], present: Truth, scores: Floats, measured: Truth | None = None
) -> AbsenceScores:
    """Sentences that were looked for, one an image; by default all are measured."""
    n = len(findings)
    own = np.ones(n, dtype=np.bool_) if measured is None else measured
    return AbsenceScores(
        images_of_two(n), list(range(n)), findings, ["x"] * n, present, own, scores
    )


def test_absence_by_hand() -> None:
    present = np.array([1, 1, 0, 0, 1, 0, 0], dtype=bool)
    scores = np.array([3.0, 1.0, 2.0, 0.0, 2.0, 1.0, 0.0])
    given = looked(["A"] * 7, present, scores, np.arange(7) < 4)
    found = measure_absence(given, QUICK)
    for name in ("A", MEAN_OF_FINDINGS, ALL):
        assert found.value(ABSENCE, name, "AUC") == 3 / 4
    assert found.of(ABSENCE, ALL) == {"AUC": 3 / 4, "with a box": 2, "without": 2}
    # Of the validation rows 2 | 1, 0: halfway is 1.5.
    youden = found.of(f"{ABSENCE}, thresholds", "Youden")
    assert youden == {"threshold": 1.5, "found": 1 / 2, "false alarms": 1 / 2}
    assert measure_absence(AbsenceScores.from_table(given.to_table()), QUICK) == found
    alone = looked(["A"] * 7, present, scores)
    assert f"{ABSENCE}, thresholds" not in measure_absence(alone, QUICK)


def test_findings_that_always_have_a_box_are_apart() -> None:
    present, scores = np.array([1, 0, 1, 1], dtype=bool), np.array([2.0, 1.0, 0.0, 0.0])
    given = looked(["A", "A", "B", "B"], present, scores)
    found = measure_absence(given, QUICK)
    assert found.value(ABSENCE, ALL, "AUC") == 1
    assert [found.count(ABSENCE, name, "with a box") for name in (ALL, "B")] == [1, 2]
    # Where no finding has both, all of them count.
    apart = measure_absence(replace(given, findings=["A", "B", "A", "A"]), QUICK)
    assert apart.value(ABSENCE, ALL, "AUC") == 1 / 3
    assert MEAN_OF_FINDINGS not in apart.groups(ABSENCE)


def test_the_mean_of_findings_is_the_same_to_the_last_digit() -> None:
    """Not in the order of a set of names, which is another in each process."""
    rng = np.random.default_rng(0)
    names = [f"finding {number:02d}" for number in range(20)]
    scores, present = rng.normal(size=600), rng.random(600) < 0.4
    found = measure_absence(looked(names * 30, present, scores), QUICK)
    each = [found.value(ABSENCE, name, "AUC") or 0 for name in names]
    assert found.value(ABSENCE, MEAN_OF_FINDINGS, "AUC") == float(np.mean(each))


# All of it


def source_of(result: Evaluation) -> str:
    assert result.predictions is not None
    part = result.predictions.parts["sides"]
    assert isinstance(part, SideScores)
    return part.source


def test_an_evaluation_has_them(checkpoint: Path, masked: Path, tmp_path: Path) -> None:
    result = evaluate(checkpoint, masked, settings=QUICK)
    assert result.predictions is not None
    parts = result.predictions.parts
    masks, absence = parts["masks"], parts["absence"]
    assert isinstance(masks, MaskValues)
    assert isinstance(absence, AbsenceScores)
    # Twelve images are measured and some others validate: thresholds come from these.
    assert masks.measured.sum() == 8
    rows = result.rows
    assert 0 < rows.count(MASKS, ALL, "validation sentences") == (~masks.measured).sum()
    assert rows.value(MASKS, ALL, "threshold") is not None
    assert (rows.value(MASKS, ALL, "pixel AUROC") or 0) > 0.5
    assert (rows.value(MASKS, ALL, "Dice") or 0) > 0.2
    assert source_of(result) == BOXES
    assert rows.value(SIDES, ALL, "above its mirror") is not None
    assert (rows.value(ABSENCE, "Pleural Effusion", "AUC") or 0) > 0.9
    assert len(rows.groups(f"{ABSENCE}, thresholds")) == 2
    write_predictions(tmp_path / "p.parquet", result.predictions, sentences=False)
    assert measure_file(tmp_path / "p.parquet").rows == rows


def test_masks_choose_thresholds_without_labels(checkpoint: Path, masked: Path) -> None:
    (masked / "labels.csv").unlink()
    result = evaluate(checkpoint, masked, settings=QUICK)
    assert result.rows.value(MASKS, ALL, "threshold") is not None
    assert not result.findings


def test_sides_of_reports_where_there_are_no_boxes(usual: Evaluation) -> None:
    assert source_of(usual) == REPORTS
    row = usual.rows.find(SIDES, ALL, "above its mirror")
    assert row is not None
    assert row.n == 8
    assert MASKS not in usual.rows
    assert ABSENCE not in usual.rows
