"""The five lines of how good a model is, and the warning where it is at chance."""

import json
from dataclasses import replace
from math import log2
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import CheckpointError
from cxrtext.evaluation import Evaluation, Predictions, Settings, measure
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.how_good import (
    FEWEST,
    HowGood,
    gain_of,
    how_good_beside,
    how_good_of,
    keeping_curve,
    with_curve,
)
from cxrtext.evaluation.predictions.file import Part
from cxrtext.evaluation.report import write_report
from cxrtext.evaluation.retrieval.sentences import (
    DIRECTIONS,
    Queries,
    Ranked,
)
from cxrtext.metrics.ranking import Floats, positive_ranks
from cxrtext.models import ImageTextModel
from tests.evaluation.conftest import images_of_two

IMAGES = 400


def evaluation_of(*scores: Floats, labels: Floats, ranks: Ranked | None = None) -> Evaluation:
    """An evaluation of findings A, B, … by their scores [n]."""
    names, values = tuple("ABCDEF"[: len(scores)]), np.stack(scores)
    classified = Classified(
        names, images_of_two(IMAGES), values, np.zeros_like(values),
        np.broadcast_to(labels, values.shape).astype(np.int8), np.ones(IMAGES, dtype=np.bool_),
    )  # fmt: skip
    about = {
        **{"checkpoint": "none", "fingerprint": "f", "data": "/d/set", "split": "test"},
        "settings": Settings(slices=()).to_dict(),
    }
    parts: dict[str, Part] = {"classification": classified}
    if ranks:
        parts["retrieval"] = ranks
    return measure(Predictions(about, parts))


def ranks_of(scores: Floats) -> Ranked:
    """Of images that have one sentence each."""
    n = len(scores)
    names, patients = images_of_two(n).names, images_of_two(n).patients
    found = (positive_ranks(scores), positive_ranks(scores.T))
    one = np.ones(n, dtype=np.int64)
    return Ranked(
        {
            name: Queries(names, patients, own, n, one)
            for name, own in zip(DIRECTIONS, found, strict=True)
        }
    )


CHANCE = np.random.default_rng(0)
HALF = np.tile([0.0, 1.0], IMAGES // 2)
NOISE = [CHANCE.normal(size=IMAGES) for _ in range(3)]


def test_a_perfect_model_finds_and_is_not_warned_of() -> None:
    ranks = ranks_of(np.eye(40))
    good = how_good_of(evaluation_of(HALF, HALF + NOISE[0] * 2, labels=HALF, ranks=ranks))
    assert (good.measured, good.at_chance, good.warning) == (True, False, "")
    finds, weakly, chance, basis, more = good.lines
    assert finds.startswith("Finds: A 1.00 [.9")
    told = "(median rank 1 [1, 1], chance 20)"
    assert finds.endswith("; ".join(f"retrieval, {name} {told}" for name in DIRECTIONS))
    assert weakly.startswith("Finds weakly: B .6")
    assert chance == "At chance, or not told from it: nothing"
    assert basis == (
        "Rests on: 400 images of 200 patients, split 'test' of set; training studies not noted; "
        "labels given"
    )
    assert more.startswith("More films: not measured; ")
    figures = {one.name: (one.figure, one.control) for one in good.measures}
    ranked = {f"retrieval, {name}": ("median rank", 20) for name in DIRECTIONS}
    assert figures == {"A": ("AUC", 0.5), "B": ("AUC", 0.5)} | ranked
    best = good.measures[0]
    assert (best.name, best.value, best.high) == ("A", 1, 1)
    assert 0.9 < best.low <= best.value


def test_a_model_of_random_scores_is_at_chance(tmp_path: Path) -> None:
    ranks = ranks_of(np.random.default_rng(1).normal(size=(80, 80)))
    found = evaluation_of(*NOISE, labels=HALF, ranks=ranks)
    (tmp_path / "labels.evidence.csv").touch()
    good = how_good_of(replace(found, data=str(tmp_path)))
    assert good.measured
    assert good.at_chance
    assert good.warning.startswith("This model is at chance: mean AUC .")
    assert good.warning.endswith(" of 3 findings in 400 images; do not use its answers.")
    assert good.lines[:2] == ("Finds: nothing", "Finds weakly: nothing")
    assert all(f"{name} ." in good.lines[2] for name in "ABC")
    assert all(f"retrieval, {name} (median rank" in good.lines[2] for name in DIRECTIONS)
    assert good.lines[3].endswith("labels read from reports by rules")
    write_report(tmp_path, found)
    page = (tmp_path / "report.html").read_text()
    assert page.index("This model is at chance") < page.index("400 images of 200 patients, split")


def test_an_interval_counts_as_one_of_several() -> None:
    """Of three findings A is above chance alone by 95 %, [.502, .61], not by 98.3 %, [.49, .62]."""
    good = how_good_of(evaluation_of(NOISE[0] + 0.09 * HALF, *NOISE[1:], labels=HALF))
    assert good.lines[1] == "Finds weakly: A .56 [.50, .61] (200 with it)"
    assert good.at_chance


@pytest.mark.parametrize("count", [FEWEST - 1, FEWEST])
def test_a_finding_of_few_images_is_not_found(count: int) -> None:
    labels = np.zeros(IMAGES)
    labels[:count] = 1.0
    good = how_good_of(evaluation_of(labels + NOISE[0] / 9, labels=labels))
    assert good.lines[0].startswith("Finds: A 1.00") == (count == FEWEST)
    assert f"({count} with it)" in good.lines[0 if count == FEWEST else 2]


def test_a_learning_curve_says_what_more_films_bring() -> None:
    rising = [(n, 0.6 + 0.03 * log2(n / 250), (0.55, 0.65)) for n in (250, 500, 1000, 2000)]
    assert gain_of(rising) == (  # half-width .05 over the root of the squares of -1.5 to 1.5
        "mean AUC .030 [.008, .052] per doubling, measured from 250 to 2,000 studies"
    )
    level = [(n, 0.7, (0.6, 0.8)) for n in (250, 2000)]
    assert gain_of(level).endswith("studies, no gain shown")
    with pytest.raises(ValueError, match="two numbers of studies"):
        gain_of(level[:1])


def test_a_curve_is_of_the_findings_that_all_could_measure(tmp_path: Path) -> None:
    weak = evaluation_of(HALF + 3 * NOISE[0], labels=HALF)
    both = evaluation_of(HALF + NOISE[0], NOISE[1], labels=HALF)
    good = how_good_of(both)
    told = with_curve(good, [(250, weak), (1000, both)])
    alone = with_curve(good, [(250, weak), (1000, evaluation_of(HALF + NOISE[0], labels=HALF))])
    assert told.lines[:4] == good.lines[:4]
    assert told.lines[4] == alone.lines[4]  # of A: the second has no other in the first
    assert told.lines[4].startswith("More films: mean AUC .")
    # Another evaluation of the same model keeps it, one of another model does not.
    assert keeping_curve(good, tmp_path) == good
    told.save(tmp_path)
    assert keeping_curve(good, tmp_path).lines == told.lines
    another = good.model_copy(update={"fingerprint": "another"})
    assert keeping_curve(another, tmp_path) == another


def test_it_is_kept_for_its_own_model_alone(model: ImageTextModel, tmp_path: Path) -> None:
    good = how_good_of(evaluation_of(*NOISE, labels=HALF))
    path = good.save(tmp_path)
    assert path == tmp_path / HowGood.FILE
    assert HowGood.load(tmp_path, "f") == good
    with pytest.raises(CheckpointError, match=r"how-good\.json: made for another model"):
        HowGood.load(tmp_path, "another")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"at_chance": False}))
    with pytest.raises(CheckpointError, match=r"how-good\.json"):
        HowGood.load(tmp_path, "f")
    path.unlink()
    assert HowGood.load(tmp_path, "f") is None
    assert how_good_beside(model).fingerprint == model.fingerprint
