"""Rows and scales of the small study, its subsets, and the verdicts made of figures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cxrtext.config import Conditional, Contrast, DclEtaTrue, Supervised, WithKernel
from cxrtext.evaluation.intervals.bootstrap import Resampled
from cxrtext.experiments import page as pages
from cxrtext.experiments.child import view_set, view_settings
from cxrtext.experiments.data.images import (
    CIFAR10,
    ImageSet,
    Labelled,
    SmallImages,
    SplitImages,
    first_of_each_class,
    write_set,
)
from cxrtext.experiments.data.sets import THINNED, cifar10_r, color_mnist
from cxrtext.experiments.experiment import (
    SCALES,
    Claim,
    Experiment,
    ExperimentOptions,
    Group,
    Measure,
    Scale,
    Trial,
    merged,
)
from cxrtext.experiments.papers import SMALL_EXPERIMENTS
from cxrtext.experiments.processes import Finished, Run
from cxrtext.experiments.simclr.encoders import build_small_encoder
from cxrtext.experiments.simclr.losses import BY_ANCHOR, BY_KERNEL, BY_VIEW, ViewSet, ViewSettings
from cxrtext.experiments.simclr.train import OPTIMIZERS
from cxrtext.experiments.stages import Measures
from cxrtext.experiments.views import Views, choose_trials, head, plan, settings_of
from cxrtext.page import markdown
from cxrtext.training.loop.device import DTYPES

EVERY = pytest.mark.parametrize("experiment", SMALL_EXPERIMENTS.values(), ids=lambda one: one.name)


def some_set(data: str) -> ImageSet:
    """Noise with the shape of a set of that name."""
    generator = torch.Generator().manual_seed(0)
    channels = 1 if data.startswith("phantoms") else 3
    images = torch.randint(0, 256, (40, channels, 32, 32), generator=generator).byte().numpy()
    labels = (torch.arange(40) % 7).numpy()
    kinds, columns = {
        "color-mnist": (("number",) * 3, ("red", "green", "blue")),
        "phantoms-age-sex": (("number", "category"), ("age", "sex")),
        "phantoms-site": (("category",), ("site",)),
        "phantoms-attributes": (("number",) * 4, ("edema", "effusion", "left", "severe")),
    }.get(data, (("category",), ("class",)))
    values = torch.randint(0, 2, (40, len(kinds)), generator=generator).float().numpy()
    part = SplitImages(images, torch.arange(40).numpy(), {})
    eta = torch.full((40,), 0.1).numpy()
    return ImageSet(part, part, labels, eta, values, kinds, columns)  # type: ignore[arg-type]


def require_trainable(data: ViewSet, settings: ViewSettings) -> None:
    """Settings fit each other, and the data have what the objective reads."""
    section, name = settings.objective, settings.objective.name
    assert name in {*BY_ANCHOR, *BY_VIEW, *BY_KERNEL, "supervised", "alignment-uniformity"}
    assert settings.positives == 1 or name in BY_ANCHOR
    if settings.positives > 1 and settings.aggregate == "group":
        assert name in ("dcl-eta", "dcl-eta-true", "positive-debiased")
    assert not settings.without_same_class or name in BY_ANCHOR
    tables = ("labels", "findings", "true_probability")
    assert not any(getattr(section, key, None) for key in tables)
    assert not (isinstance(section, Contrast) and section.symmetric)
    if isinstance(section, Supervised) or settings.without_same_class:
        assert data.labels is not None
    assert not isinstance(section, DclEtaTrue) or data.eta is not None
    assert not isinstance(section, Conditional) or data.metadata is not None
    assert not isinstance(section, WithKernel) or len(data.kinds) == len(section.condition)
    assert settings.optimizer in OPTIMIZERS
    assert settings.aggregate in ("loss", "group")
    assert settings.schedule in ("constant", "cosine")
    assert settings.precision in ("float32", *DTYPES)
    assert min(settings.batch - 1, settings.save_every, settings.log_every, settings.lr) > 0
    build_small_encoder(settings.encoder, channels=data.images.shape[1], width=2)


@EVERY
@pytest.mark.parametrize("scale", SCALES)
def test_the_trainer_takes_every_row(experiment: Experiment, scale: str, tmp_path: Path) -> None:
    sets = {}
    for group in experiment.groups:
        sets[group.data] = tmp_path / f"{group.data}.npz"
        write_set(sets[group.data], some_set(group.data))
    trials = list(experiment.trials())
    runs = plan(experiment, experiment.scales[scale], trials, 1, sets, tmp_path)
    assert len({run.folder for run in runs}) == len(trials)
    assert len({run.name for run in runs}) == len(trials)
    groups = {group.name: group for group in experiment.groups}
    for run in runs:
        settings = view_settings(run.settings)
        held = some_set(groups[run.group].data)
        require_trainable(view_set(held, settings), settings)
        assert settings.batch <= 40
        assert settings.steps == run.steps > 0


@EVERY
def test_tables_and_claims_name_what_is_there(experiment: Experiment) -> None:
    rows = {trial.name: group for group, trial in experiment.trials()}
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
def test_rows_of_a_table_have_the_same_budget(experiment: Experiment) -> None:
    """All settings but the objective and what a row's title names."""
    named = {"objective", "positives", "aggregate", "without_same_class", "augmentation", "batch"}
    for scale in experiment.scales.values():
        for group in experiment.groups:
            found = [settings_of(experiment, scale, group, one, 0) for one in group.trials]
            kept = [{key: one[key] for key in one.keys() - named} for one in found]
            assert all(one == kept[0] for one in kept)


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
        found = settings_of(experiment, experiment.scales["paper"], group, trial, 0)
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


def test_later_settings_win_and_steps_replace_epochs() -> None:
    first = {"epochs": 3, "augmentation": {"flip": 0.5, "blur": 0.1}, "objective": {"a": 1}}
    second = {"steps": 7, "augmentation": {"blur": 0.3}, "objective": {"b": 2}}
    assert merged(first, second) == {
        "steps": 7,
        "augmentation": {"flip": 0.5, "blur": 0.3},
        "objective": {"b": 2},
    }
    assert merged(second, {"epochs": 2})["epochs"] == 2
    assert "steps" not in merged(second, {"epochs": 2})


def test_rows_are_chosen_by_scale_or_by_name() -> None:
    experiment = SMALL_EXPERIMENTS["cifar10-r"]
    assert len(choose_trials(experiment, "cpu", None)) == 8
    assert len(choose_trials(experiment, "paper", None)) == 24
    chosen = choose_trials(experiment, "cpu", ("dcl-true-0.9", "cl-0.05"))
    assert [trial.name for _, trial in chosen] == ["cl-0.05", "dcl-true-0.9"]


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


def markdown_page(table: dict[str, Any]) -> str:
    return markdown("Made up", pages.sections(table), head(table))


def order_text(*runs: Finished) -> str:
    return " ".join(text.text for text in pages.order_text(table_of(*runs)["order"]))


NOISE = np.random.default_rng(0).normal(0, 1, 200)

MEASURES = (Measure("accuracy"), Measure("site accuracy", smaller=True))


def trial(name: str, *paper: float) -> Trial:
    figures = dict(zip((one.name for one in MEASURES), paper, strict=False))
    return Trial(name, f"the {name}", {"objective": {"name": "info-nce"}}, figures)


GROUP = Group(
    "main", "Main", "cifar10", "classes", MEASURES, "base",
    (trial("base", 70, 40), trial("good", 80, 20), trial("other")),
)  # fmt: skip
EXPERIMENT = Experiment(
    "made-up", "made up", "Made up", "Nobody 2020", "is good better?", None, (GROUP,),
    {"cpu": Scale({})}, {},
)  # fmt: skip


def finished(name: str, accuracy: float, site: float, seed: int = 0) -> Finished:
    measures: Measures = {
        "accuracy": Resampled(accuracy, accuracy + NOISE, ("rows",)),
        "site accuracy": Resampled(site, site + NOISE * 0.5, ("rows",)),
    }
    settings = {
        "steps": 9, "batch": 4, "lr": 0.1, "optimizer": "adam", "encoder": "resnet18",
        "width": 2, "gamma_sq": 2.0, "precision": "float32",
    }  # fmt: skip
    metrics = {
        "settings": settings, "images": 11, "measured": 7, "machine": "1 core", "threads": 1,
        "versions": {}, "budget": {"steps": 9, "images": 36, "seconds": 12.3},
    }  # fmt: skip
    return Finished(Run(name, seed, Path(name), 9, GROUP.name, settings), metrics, measures)


def table_of(*runs: Finished, seeds: int = 1) -> dict[str, Any]:
    kind = Views(EXPERIMENT, ExperimentOptions("cpu"))
    head = {"seeds": seeds, "machine": "1 core", "versions": "v1"}
    return {**kind.source(), **head, **kind.table(runs, {})}


def test_a_smaller_figure_is_better_where_the_measure_says_so() -> None:
    table = table_of(finished("base", 50, 30), finished("good", 50.1, 25))
    base, good, other = table["groups"][0]["rows"]
    assert base["difference"] == {}
    assert other["measures"] == {}
    assert good["difference"]["accuracy"]["verdict"] == "better"  # paired: the noise is the same
    assert good["difference"]["site accuracy"]["verdict"] == "better"
    assert good["difference"]["site accuracy"]["value"] == -5
    order = table["order"]
    assert (order["pairs"], order["agree_clearly"], order["tau"]) == (2, 2, 1)


def test_the_page_and_whether_the_papers_order_appears_is_said() -> None:
    base, reversed_ = finished("base", 50, 30), finished("good", 45, 35)
    order = table_of(base, reversed_)["order"]
    assert (order["contrary_clearly"], order["tau"]) == (2, -1)
    for other, says in (
        (finished("good", 50.1, 25), "The paper's order appears in all pairs"),
        (reversed_, "does not appear: it is reversed where rows are distinguishable"),
        (finished("good", 45, 25), "appears in 1 of the 2 pairs that can be distinguished"),
        (finished("good", 50, 30), "it is not clear"),
    ):
        assert says in order_text(base, other)
    assert "No two rows" in order_text(base)
    page = markdown_page(table_of(finished("base", 50, 30), finished("good", 60, 25)))
    assert "| the good | 60.0 [58." in page
    assert "| 80.0 | -20.0 |" in page  # the paper's, and ours less it
    assert "9 steps of 4 images" in page
    assert "site accuracy (smaller is better)" in page


def test_several_seeds() -> None:
    runs = [finished("base", 50, 30), finished("base", 52, 30, 1), finished("good", 60, 20, 1)]
    table = table_of(*runs, seeds=2)
    base, good, _ = table["groups"][0]["rows"]
    assert base["measures"]["accuracy"]["value"] == 51
    assert base["measures"]["accuracy"]["deviation"] == pytest.approx(2**0.5)
    assert good["difference"]["accuracy"]["value"] == 8  # on the seed that both have
    assert "± 1.4" in markdown_page(table)
