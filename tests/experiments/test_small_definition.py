"""Rows and scales of the small study, and its subsets."""

from typing import Any

import numpy as np
import pytest

from cxrtext.experiments import ExperimentOptions
from cxrtext.experiments.child import view_settings
from cxrtext.experiments.data.images import (
    CIFAR10,
    Labelled,
    SmallImages,
    first_of_each_class,
)
from cxrtext.experiments.data.sets import THINNED, cifar10_r, color_mnist
from cxrtext.experiments.experiment import (
    SCALES,
    Claim,
    Experiment,
)
from cxrtext.experiments.papers import SMALL_EXPERIMENTS
from cxrtext.experiments.views import Views

EVERY = pytest.mark.parametrize("experiment", SMALL_EXPERIMENTS.values(), ids=lambda one: one.name)


@EVERY
def test_tables_and_claims_name_what_is_there(experiment: Experiment) -> None:
    rows = {trial.name: group for group, trial in experiment.trials()}
    assert len(rows) == len(list(experiment.trials()))
    assert set(experiment.scales) == set(SCALES)
    assert experiment.all_claims()
    for claim in experiment.all_claims():
        for row in (claim.better, claim.worse):
            assert claim.measure in {measure.name for measure in rows[row].measures}
        assert claim.better != claim.worse
    # No pair is claimed in both directions.
    pairs = {(one.better, one.worse, one.measure) for one in experiment.all_claims()}
    assert not any((worse, better, measure) in pairs for better, worse, measure in pairs)
    for group in experiment.groups:
        assert group.baseline in rows
        for trial in group.trials:
            assert set(trial.paper) <= {measure.name for measure in group.measures}


@EVERY
def test_rows_of_a_table_have_the_same_budget_and_can_be_trained(experiment: Experiment) -> None:
    """All settings but the objective and what a row's title names."""
    named = {"objective", "positives", "aggregate", "without_same_class", "augmentation", "batch"}
    for scale in experiment.scales:
        views = Views(experiment, ExperimentOptions(scale))
        for group in experiment.groups:
            found = [views.settings(group, one, 0) for one in group.trials]
            kept = [{key: one[key] for key in one.keys() - named} for one in found]
            assert all(one == kept[0] for one in kept)
            for one in found:  # a trainer takes them
                steps = {"steps": one.pop("epochs", 1)}
                view_settings(steps | one)


def test_the_papers_settings() -> None:
    """The paper's recipes, at scale paper."""
    wanted: dict[str, dict[str, Any]] = {
        "cifar10-r": {"batch": 128, "epochs": 300, "lr": 1e-3, "weight_decay": 1e-6, "width": 64},
        "positive-debiased": {"batch": 512, "epochs": 50, "lr": 1e-3, "encoder": "resnet18"},
        "conditional-uniformity": {"batch": 1024, "lr": 1e-3, "weight_decay": 5e-5},
        "fair-cclk": {"encoder": "lenet5", "optimizer": "lars", "steps": 1175},
        "hardneg-cclk": {"encoder": "resnet50", "batch": 256, "epochs": 400, "lr": 1.5},
        "weaksup-cclk": {"optimizer": "lars", "epochs": 1000, "head": (2048, 2048, 128)},
    }
    for name, settings in wanted.items():
        experiment = SMALL_EXPERIMENTS[name]
        group, trial = next(experiment.trials())
        found = Views(experiment, ExperimentOptions("paper")).settings(group, trial, 0)
        assert settings == {key: found[key] for key in settings}
    low = next(t for _, t in SMALL_EXPERIMENTS["cifar10-r"].trials() if t.name == "dcl-low-0.1")
    assert low.settings["objective"]["eta"] == pytest.approx(0.02 / 1.1)


def test_claims_follow_the_papers_figures() -> None:
    claims = SMALL_EXPERIMENTS["fair-cclk"].all_claims()
    assert Claim("fair-cclk-cosine", "info-nce", "color MSE") in claims
    # 64.9 and 64.7, with deviations of 5 and 4, are no order.
    assert Claim("fair-info-nce-10", "fair-cclk-cosine", "color MSE") not in claims
    assert Claim("fair-info-nce-10", "fair-info-nce-3", "accuracy") in claims
    assert Claim("fair-cclk-cosine", "fair-info-nce-10", "accuracy") in claims
    assert Claim("hardneg-info-nce", "hardneg-cclk-polynomial", "accuracy") in (
        SMALL_EXPERIMENTS["hardneg-cclk"].all_claims()
    )


def test_rows_are_chosen_by_scale_or_by_name() -> None:
    def chosen(scale: str, *rows: str) -> list[str]:
        options = ExperimentOptions(scale, rows=rows or None)
        return [trial.name for _, trial in Views(SMALL_EXPERIMENTS["cifar10-r"], options).trials]

    assert len(chosen("cpu")) == 8
    assert len(chosen("paper")) == 24
    assert chosen("cpu", "dcl-true-0.9", "cl-0.05") == ["cl-0.05", "dcl-true-0.9"]


LABELS = np.repeat(np.arange(10), 200)


@pytest.mark.parametrize("r", [0.05, 0.1, 0.5, 1.0])
def test_cifar10_r_has_the_papers_class_probabilities(r: float) -> None:
    rows, eta = cifar10_r(LABELS, CIFAR10, r, np.random.default_rng(0))
    counts = np.bincount(LABELS[rows], minlength=10)
    for code, name in enumerate(CIFAR10):
        thin = name in THINNED
        assert counts[code] == (round(200 * r) if thin else 200)
        own = eta[LABELS[rows] == code]
        np.testing.assert_allclose(own, 0.2 * (r if thin else 1) / (1 + r), rtol=1e-6)
    assert (np.diff(rows) > 0).all()
    again, _ = cifar10_r(LABELS, CIFAR10, r, np.random.default_rng(0))
    np.testing.assert_array_equal(rows, again)
    if r < 1:
        others, _ = cifar10_r(LABELS, CIFAR10, r, np.random.default_rng(1))
        assert not np.array_equal(rows, others)


def test_color_mnist() -> None:
    digits = np.random.default_rng(0).integers(0, 256, (40, 1, 28, 28)).astype(np.uint8)
    images, colors = color_mnist(digits, np.random.default_rng(1))
    assert images.shape == (40, 3, 32, 32)
    assert images.dtype == np.uint8
    assert len(np.unique(colors, axis=0)) == 40
    for image, digit, color in zip(images, digits, colors, strict=True):
        stroke = np.zeros((32, 32), dtype=bool)
        stroke[2:30, 2:30] = digit[0] >= 128
        assert (image[:, stroke] == 0).all()
        assert (image[:, ~stroke] == color[:, None]).all()


def test_a_smaller_set_has_equal_classes() -> None:
    images = np.arange(2000, dtype=np.int64).astype(np.uint8)[:, None, None, None]
    whole = SmallImages(Labelled(images, LABELS), Labelled(images[::2], LABELS[::2]), CIFAR10)
    few = first_of_each_class(whole, 50, None)
    assert np.bincount(few.train.labels).tolist() == [5] * 10
    np.testing.assert_array_equal(few.train.images[:5], images[:5])
    assert len(few.test.labels) == 1000
