import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation import age_bands, area_under_curve, slice_aucs
from cxrtext.evaluation.intervals.delong import area, difference
from cxrtext.evaluation.report.tables import slice_rows
from cxrtext.evaluation.rows import GAP, GROUPS, Rows


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
    assert report.too_small == []
    # Of two groups the interval is that of their difference.
    codes, halves = np.array(patients), (slice(0, 150), slice(150, 300))
    first, second = (area(scores[at], labels[at], codes[at], 150) for at in halves)
    found = difference(first, second)
    assert (report.gap_low, report.gap_high) == pytest.approx((found.low, found.high))


def test_small_slices_are_named_and_not_dropped() -> None:
    scores, labels, groups = drawn({"PA": 1.0, "AP": 1.0})
    groups[:9] = [""] * 9
    report = slice_aucs(scores, labels, groups, range(300))
    assert report.too_small == ["unknown"]
    small = report.slices["unknown"]
    assert (small.auc, small.low, small.high) == (None, None, None)
    assert small.positives + small.negatives == 9
    assert report.gap is not None


def test_without_two_slices_there_is_no_gap() -> None:
    scores, labels, groups = drawn({"one": 1.0})
    report = slice_aucs(scores, labels, groups, range(150))
    assert report.slices["one"].auc is not None
    assert (report.gap, report.gap_low, report.gap_high) == (None, None, None)
    none = slice_aucs(scores, labels, groups, range(150), minimum=100)
    assert none.too_small == ["one"]


def test_gaps_of_groups_that_are_alike_hold_0_as_often_as_they_say() -> None:
    generator, held = np.random.default_rng(2), 0
    for _ in range(200):
        labels = generator.integers(0, 2, 240)
        groups = [str(number % 4) for number in range(240)]
        report = slice_aucs(generator.normal(labels * 1.0), labels, groups, range(240))
        held += report.gap_low == 0
    assert held / 200 > 0.94


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
    assert age_bands(ages) == [*bands, "unknown", "unknown", "60-79", "unknown", "unknown"]
    assert age_bands(["007M", "122", "123", "414", "90+"]) == [
        "under 40", "80 and over", "unknown", "unknown", "unknown",
    ]  # fmt: skip


def test_a_group_that_is_too_small_says_of_what_it_has_too_few() -> None:
    rows, part = Rows(), f"{GROUPS}, sex"
    for name, positives, negatives in (("a", 200, 3), ("b", 2, 3), ("c", 2, 30)):
        rows.add(part, name, "AUC of Edema", None)
        rows.add(part, name, "with Edema", positives)
        rows.add(part, name, "without Edema", negatives)
    rows.add(part, GAP, "AUC of Edema", None)
    assert slice_rows(rows, "sex")[1] == [
        "Edema", "too few (3 without)", "too few (2 with, 3 without)", "too few (2 with)", "–",
    ]  # fmt: skip
    assert age_bands([17, 18], [18]) == ["under 18", "18 and over"]
    with pytest.raises(ValueError, match="rise"):
        age_bands([1], [60, 40])


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="equally long"):
        slice_aucs([1.0, 2.0], [0, 1], ["a"], ["p", "q"])
    with pytest.raises(ValueError, match="minimum"):
        slice_aucs([1.0, 2.0], [0, 1], ["a", "a"], ["p", "q"], minimum=0)
