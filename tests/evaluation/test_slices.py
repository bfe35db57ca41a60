import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation.classification.subgroups import age_bands, slice_aucs
from cxrtext.evaluation.intervals.delong import area, difference
from cxrtext.evaluation.intervals.estimates import Estimate


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
    report = slice_aucs(scores, labels, groups, patients)
    codes, halves = np.array(patients), (slice(0, 150), slice(150, 300))
    first, second = (area(scores[at], labels[at], codes[at], 150) for at in halves)
    assert list(report.slices) == ["F", "M"]
    for one, own in zip(report.slices.values(), (first, second), strict=True):
        assert (one.auc.value, one.auc.low, one.auc.high) == (own.value, *own.interval())
        assert one.positives + one.negatives == 150
    # Of two groups the interval is that of their difference.
    found, gap = difference(first, second), report.gap
    assert (gap.value, gap.low, gap.high) == pytest.approx((found.estimate, found.low, found.high))
    assert found.low > 0.2


def test_small_slices_are_named_and_not_dropped_and_a_gap_wants_two_that_are_not() -> None:
    scores, labels, groups = drawn({"PA": 1.0, "AP": 1.0})
    groups[:9] = [""] * 9
    report = slice_aucs(scores, labels, groups, range(300))
    assert [one.auc.value is None for one in report.slices.values()] == [False, False, True]
    small = report.slices["unknown"]
    assert small.auc == Estimate()
    assert small.positives + small.negatives == 9
    assert report.gap.value is not None
    alone = slice_aucs(*drawn({"one": 1.0}), range(150))
    assert alone.slices["one"].auc.value is not None
    assert alone.gap == Estimate()
    with pytest.raises(ValueError, match="equally long"):
        slice_aucs([1.0, 2.0], [0, 1], ["a"], ["p", "q"])


def test_gaps_of_groups_that_are_alike_hold_0_as_often_as_they_say() -> None:
    generator, held = np.random.default_rng(2), 0
    for _ in range(200):
        labels = generator.integers(0, 2, 240)
        groups = [str(number % 4) for number in range(240)]
        report = slice_aucs(generator.normal(labels * 1.0), labels, groups, range(240))
        held += report.gap.low == 0
    assert held / 200 > 0.94


def test_age_bands_by_hand() -> None:
    banded: dict[str, list[str | float | None]] = {
        "under 40": [0, "39.9", "7.5", "007M", "012D"],
        "40-59": ["40", 59.0],
        "60-79": ["60", "79", "061Y"],
        "80 and over": [80, 91.0, "122"],
        "unknown": [None, "", -1, "-3", float("nan"), "nan", "old", "90+", "123", "414", "1e9"],
    }
    for band, ages in banded.items():
        assert age_bands(ages) == [band] * len(ages)
