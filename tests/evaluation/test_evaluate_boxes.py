from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cxrtext.evaluation import evaluate
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.grounding.boxes import NO_PIXEL, NO_SENTENCE, NOT_ONE_SIZE, place_boxes
from cxrtext.evaluation.retrieval.boxes import (
    DIRECTIONS,
    EQUAL_RIGHT,
    box_features,
    measure_box_retrieval,
)
from cxrtext.evaluation.retrieval.sentences import Queries, Ranked
from cxrtext.evaluation.rows import (
    BOTH,
    BOX_RETRIEVAL,
    GROUNDING,
    MEAN_OF_FINDINGS,
    MEAN_OF_SENTENCES,
)
from cxrtext.images import Preprocessing
from cxrtext.metrics.maps import box_mask, contrast_to_noise, overlap_by_threshold, pointing_game
from cxrtext.metrics.ranking import retrieval_metrics
from cxrtext.records import Box, ImageRecord
from tests.datasets.written import save_radiograph
from tests.evaluation.conftest import QUICK


def cohort_of(names: Sequence[str], size: tuple[int, int] = (80, 80), grid: int = 2) -> Cohort:
    generator = torch.Generator().manual_seed(0)
    regions = F.normalize(torch.randn(len(names), grid * grid, 8, generator=generator), dim=-1)
    records = [ImageRecord(Path(name), name, name, f"p-{name}") for name in names]
    return Cohort(records, [size] * len(names), regions.half(), Preprocessing(72, 64))


def test_grounding_is_that_of_the_measures(checkpoint: Path, boxed: Path) -> None:
    result = evaluate(checkpoint, boxed, settings=QUICK)
    details = result.details
    assert details is not None
    expected = []
    for phrase in place_boxes(details.folder.boxes or (), details.cohort).phrases:
        vector = details.model.embed_sentences([phrase.text])[0]
        with torch.inference_mode():
            grid = (details.cohort.grid(phrase.row) @ vector).numpy()
        heat = details.cohort.geometry(phrase.row).map_to_original(grid)
        boxes = box_mask(phrase.boxes, heat.shape)
        overlap = overlap_by_threshold(heat, boxes).mean()
        expected.append((contrast_to_noise(heat, boxes), overlap, pointing_game(heat, boxes)))
    mean = result.rows.of(GROUNDING, MEAN_OF_SENTENCES)
    found = [mean["CNR"], mean["mIoU"], mean["pointing game"]]
    assert found == pytest.approx(np.mean(expected, axis=0).tolist(), rel=1e-5)
    assert mean["sentences"] == len(expected) == 8
    row = result.rows.find(GROUNDING, MEAN_OF_SENTENCES, "CNR")
    assert row is not None
    assert (row.low or 9) <= (row.value or 0) <= (row.high or 0)
    findings = {"Pleural Effusion", "Pneumothorax"}
    assert set(result.rows.groups(GROUNDING)) == {*findings, MEAN_OF_FINDINGS, MEAN_OF_SENTENCES}
    both = result.rows.of(BOX_RETRIEVAL, BOTH)
    assert both["Recall"] is None  # eight pairs have no R@100
    assert 1 <= (both["MedR"] or 0) <= 8


def test_box_retrieval_is_that_of_the_matrix(checkpoint: Path, boxed: Path) -> None:
    result = evaluate(checkpoint, boxed, split="all", settings=QUICK)
    assert result.details is not None
    model, cohort = result.details.model, result.details.cohort
    placed = place_boxes(result.details.folder.boxes or (), cohort).boxes
    features, kept = box_features(cohort, placed)
    assert kept == list(range(32))
    texts = [box.text for box in placed]
    scores = model.embed_sentences(texts).double().numpy() @ features.T
    equal = np.array(texts)[:, None] == np.array(texts)
    for right, suffix in ((None, ""), (equal, EQUAL_RIGHT)):
        expected = retrieval_metrics(np.round(scores, 9), right, [1, 5, 10])
        found = result.rows.of(BOX_RETRIEVAL, f"sentence to box{suffix}")
        assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert result.rows.value(BOX_RETRIEVAL, BOTH, "pairs") == 32


def test_boxes_find_their_images_and_their_size() -> None:
    cohort = cohort_of(["files/a.dcm", "files/b.dcm"])
    inside = (10.0, 20.0, 30.0, 40.0)
    boxes = [
        Box("files/a.dcm", 0, 0, "Edema", " Edema. ", inside),
        Box("elsewhere/b.jpg", 40, 40, "Edema", "Edema.", (5.0, 10.0, 15.0, 20.0)),
        Box("c.jpg", 80, 80, "Edema", "Edema.", inside),
        Box("files/a.dcm", 80, 40, "Edema", "Edema.", inside),
        Box("files/a.dcm", 80, 80, "Edema", " ", inside),
        Box("files/a.dcm", 80, 80, "Edema", "Edema.", (90.0, 0.0, 5.0, 5.0)),
        Box("files/a.dcm", 80, 80, "Edema", "Edema.", (1.0, 1.0, 2.0, 2.0)),
    ]
    placed = place_boxes(boxes, cohort)
    assert [(box.row, box.text, box.bbox) for box in placed.boxes] == [
        (0, "Edema.", inside),
        (0, "Edema.", (1.0, 1.0, 2.0, 2.0)),
        (1, "Edema.", inside),  # drawn on a copy of half the size
    ]
    assert placed.left_out == {NOT_ONE_SIZE: 1, NO_SENTENCE: 1, NO_PIXEL: 1}
    assert [len(phrase.boxes) for phrase in placed.phrases] == [2, 1]


@pytest.mark.parametrize(
    ("letters", "declared", "wanted"),
    [
        (["L", "F"], (120, 90), (10.0, 20.0, 30.0, 15.0)),
        (["R", "F"], (120, 90), (80.0, 20.0, 30.0, 15.0)),
        (["R", "F"], (60, 45), (40.0, 40.0, 60.0, 30.0)),
        (["F", "R"], (0, 0), (55.0, 10.0, 15.0, 30.0)),
        (["F", "R"], (90, 120), (10.0, 20.0, 30.0, 15.0)),  # drawn on the picture as shown
    ],
)
def test_boxes_go_along_with_a_turned_image(
    tmp_path: Path,
    letters: list[str],
    declared: tuple[int, int],
    wanted: tuple[float, float, float, float],
) -> None:
    pixels = np.zeros((90, 120), np.uint8)
    save_radiograph(tmp_path / "a.dcm", "1.2.3", pixels, PatientOrientation=letters)
    size = (120, 90) if letters[0] == "F" else (90, 120)
    cohort = cohort_of([str(tmp_path / "a.dcm")], size)
    box = Box(str(tmp_path / "a.dcm"), *declared, "Edema", "Edema.", (10.0, 20.0, 30.0, 15.0))
    (placed,) = place_boxes([box], cohort).boxes
    assert placed.bbox == pytest.approx(wanted)


def test_the_papers_recall_is_the_mean_of_six() -> None:
    names, ones = [str(i) for i in range(200)], np.ones(200, dtype=np.int64)
    first, second = np.arange(1, 201), np.arange(200, 0, -1) + 10
    queries = {
        name + suffix: Queries(names, names, ranks, 200, ones)
        for suffix in ("", EQUAL_RIGHT)
        for name, ranks in zip(DIRECTIONS, (first, second), strict=True)
    }
    both = measure_box_retrieval(Ranked(queries)).of(BOX_RETRIEVAL, BOTH)
    # 10, 50 and 100 of 200, and 0, 40 and 90.
    assert both["Recall"] == pytest.approx(290 / 1200)
    assert both["MedR"] == (100.5 + 110.5) / 2
