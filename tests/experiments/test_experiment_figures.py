import pytest

from cxrtext.experiments.figures import box_figures

DIRECTION = {"R@10": 0.1, "R@50": 0.3, "R@100": 0.5, "MedR": 100.0}


def test_an_evaluation_without_boxes_has_no_such_figures() -> None:
    # Recall of whole images is another measure than the paper's.
    assert box_figures({"retrieval": {"sentence to image": DIRECTION}, "mean_auc": 0.8}) == {}


@pytest.mark.parametrize(
    "grounding",
    [
        {"CNR": 1.4, "mIoU": 0.19},
        {"cnr": 1.4, "mean_iou": 0.19},
        {"CNR": {"all": {"mean": 1.4, "count": 3}}, "mIoU": {"all": {"mean": 0.19, "count": 3}}},
        {"all": {"CNR": 1.4, "mIoU": 0.19}},
    ],
)
def test_grounding_is_read(grounding: dict[str, object]) -> None:
    assert box_figures({"grounding": grounding}) == {"CNR": 1.4, "mIoU": 0.19}


def test_recall_is_the_mean_over_both_directions_and_three_cutoffs() -> None:
    other = {"R@10": 0.3, "R@50": 0.5, "R@100": 0.7, "MedR": 50.0}
    figures = box_figures(
        {"box_retrieval": {"sentence to box": DIRECTION, "box to sentence": other}}
    )
    assert figures == {"Recall": pytest.approx(0.4), "MedR": 75.0}


def test_a_set_too_small_for_the_cutoffs_has_no_recall() -> None:
    few = {"R@10": 0.3, "MedR": 5.0}
    assert box_figures({"box_retrieval": {"sentence to box": few, "box to sentence": few}}) == {
        "MedR": 5.0
    }
