import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification.subgroups import age_bands, measure_slices
from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.rows import GAP, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import area, difference


def drawn(
    strengths: dict[str, float], n: int = 150
) -> tuple[NDArray[np.float64], NDArray[np.int64], list[str]]:
    """Scores that tell the classes apart the better the stronger a group's are."""
    generator = np.random.default_rng(0)
    groups = [name for name in strengths for _ in range(n)]
    labels = generator.integers(0, 2, len(groups))
    strength = np.array([strengths[group] for group in groups])
    return generator.normal(labels * strength), labels, groups


def sliced(strengths: dict[str, float], small: int = 0) -> Rows:
    """AUCs by sex of two images a patient, some of whom do not say it."""
    scores, labels, groups = drawn(strengths)
    groups[:small] = [""] * small
    names = [str(number) for number in range(len(groups))]
    patients = [str(number // 2) for number in range(len(groups))]
    images = Images(names, names, patients, ["test"] * len(names), {"sex": groups})
    one = FindingScores(scores, labels == 1, np.arange(len(names)), None)
    return measure_slices(images, {"Edema": one}, Settings(slices=("sex",)))[0]


def test_slices_and_their_gap() -> None:
    scores, labels, _ = drawn({"F": 3.0, "M": 0.0})
    codes, halves = np.arange(300) // 2, (slice(0, 150), slice(150, 300))
    first, second = (area(scores[at], labels[at], codes[at], 150) for at in halves)
    rows = sliced({"F": 3.0, "M": 0.0})
    for name, own in (("F", first), ("M", second)):
        row = rows.find("groups, sex", name, "AUC of Edema")
        assert row is not None
        assert (row.value, row.low, row.high, row.n) == (own.value, *own.interval(), 150)
    # Of two groups the interval is that of their difference.
    found, gap = difference(first, second), rows.find("groups, sex", GAP, "AUC of Edema")
    assert found is not None
    assert gap is not None
    assert (gap.value, gap.low, gap.high) == (found.estimate, found.low, found.high)
    assert found.low > 0.2


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
