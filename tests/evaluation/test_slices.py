import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation import age_bands, area_under_curve, slice_aucs


def drawn(
    strengths: dict[str, float], n: int = 150
) -> tuple[NDArray[np.float64], NDArray[np.int64], list[str]]:
    """Scores that tell the classes apart the better the stronger a group's are."""
    generator = np.random.default_rng(0)
    groups = [name for name in strengths for _ in range(n)]
    labels = generator.integers(0, 2, len(groups))
    strength = np.array([strengths[group] for group in groups])
    return generator.normal(labels * strength), labels, groups


def test_slices_and_their_gap() -> None:
    scores, labels, groups = drawn({"F": 3.0, "M": 0.0})
    patients = [number // 2 for number in range(300)]
    report = slice_aucs(scores, labels, groups, patients, np.random.default_rng(1), resamples=300)
    assert list(report.slices) == ["F", "M"]
    for name, rows in (("F", slice(0, 150)), ("M", slice(150, 300))):
        one = report.slices[name]
        assert one.auc == area_under_curve(scores[rows], labels[rows])
        assert one.auc is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low < one.auc < one.high
        assert one.positives + one.negatives == 150
    areas = [one.auc for one in report.slices.values() if one.auc is not None]
    assert report.gap is not None
    assert report.gap == pytest.approx(max(areas) - min(areas))
    assert report.gap_low is not None
    assert 0.2 < report.gap_low < report.gap
    assert (report.too_small, report.redrawn) == ([], 0)


def test_small_slices_are_named_and_not_dropped() -> None:
    scores, labels, groups = drawn({"PA": 1.0, "AP": 1.0})
    groups[:9] = [""] * 9
    report = slice_aucs(scores, labels, groups, range(300), np.random.default_rng(1), resamples=50)
    assert report.too_small == ["unknown"]
    small = report.slices["unknown"]
    assert (small.auc, small.low, small.high) == (None, None, None)
    assert small.positives + small.negatives == 9
    assert report.gap is not None


def test_without_two_slices_there_is_no_gap() -> None:
    scores, labels, groups = drawn({"one": 1.0})
    options = {"resamples": 50}
    generator = np.random.default_rng(1)
    report = slice_aucs(scores, labels, groups, range(150), generator, **options)
    assert report.slices["one"].auc is not None
    assert (report.gap, report.gap_low, report.gap_high) == (None, None, None)
    none = slice_aucs(scores, labels, groups, range(150), generator, minimum=100)
    assert (none.too_small, none.redrawn) == (["one"], 0)


def test_resamples_that_lack_a_class_of_a_slice_are_counted() -> None:
    labels = [1, 0] * 4
    groups = ["a", "a", "b", "b", "b", "b", "b", "b"]
    report = slice_aucs(
        np.arange(8.0), labels, groups, range(8), np.random.default_rng(0), resamples=50, minimum=1
    )
    assert report.redrawn > 20
    assert report.slices["a"].auc == 0.0


def test_age_bands_by_hand() -> None:
    ages: list[str | float | None] = [
        0,
        "39.9",
        "40",
        59.0,
        "60",
        "79",
        80,
        91.0,
        None,
        "",
        "061Y",
        -1,
        float("nan"),
    ]
    bands = ["under 40"] * 2 + ["40-59"] * 2 + ["60-79"] * 2 + ["80 and over"] * 2
    assert age_bands(ages) == bands + ["unknown"] * 5
    assert age_bands([17, 18], [18]) == ["under 18", "18 and over"]
    with pytest.raises(ValueError, match="rise"):
        age_bands([1], [60, 40])


def test_wrong_arguments() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ValueError, match="equally long"):
        slice_aucs([1.0, 2.0], [0, 1], ["a"], ["p", "q"], generator)
    with pytest.raises(ValueError, match="minimum"):
        slice_aucs([1.0, 2.0], [0, 1], ["a", "a"], ["p", "q"], generator, minimum=0)
