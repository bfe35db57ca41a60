"""When does debiasing help: the optimum of the losses, and the page."""

import json
from pathlib import Path

import pytest
import torch

from cxrtext.errors import ConfigError
from cxrtext.experiments import ExperimentOptions, run_experiment
from cxrtext.experiments.when_it_helps import METHODS, SETTINGS, Setting, measure, optimum


def films() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of 12 kinds of film: their probability, that of 3 classes given the kind, and priors."""
    generator = torch.Generator().manual_seed(0)
    posterior = torch.randn(12, 3, generator=generator, dtype=torch.float64).softmax(dim=1)
    weights = torch.full((12,), 1 / 12, dtype=torch.float64)
    return weights, posterior, weights @ posterior


@pytest.mark.parametrize("corrected", [False, True])
def test_the_optimum_is_where_the_expected_loss_is_stationary(corrected: bool) -> None:
    """With as many negatives and positives as there are films, weighted as they occur."""
    weights, posterior, prior = films()
    eta = prior if corrected else torch.zeros(3, dtype=torch.float64)
    scores = optimum(posterior, prior, eta, 50.0).T.clone().requires_grad_()  # [classes, films]
    of_class = (posterior * weights[:, None]).T / prior[:, None]
    negative = (scores.exp() * weights).sum(dim=1)
    positive = (scores.exp() * of_class).sum(dim=1)
    rest = (negative - eta * positive) / (1 - eta)
    loss = (prior[:, None] * of_class * (rest.log()[:, None] - scores)).sum()
    (slope,) = torch.autograd.grad(loss, scores)
    assert slope.abs().max() < 1e-9


def test_the_order_of_films_stays_and_that_of_sentences_does_not() -> None:
    posterior = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4], [0.5, 0.0, 0.5]]).double()
    prior = torch.tensor([0.6, 0.05, 0.35], dtype=torch.float64)
    plain, corrected = (optimum(posterior, prior, eta, 50.0) for eta in (0.0, prior))
    assert torch.equal(plain.argsort(dim=0), corrected.argsort(dim=0))
    # 0.8 / 0.6 < 0.1 / 0.05, but the odds of the common class have risen more.
    assert (int(plain[0].argmax()), int(corrected[0].argmax())) == (1, 0)
    odds = posterior / (1 - posterior) * (1 - prior) / prior
    assert torch.allclose(corrected, odds.log())


def test_measures_by_hand() -> None:
    classes = torch.arange(20) % 10
    scores = torch.zeros(20, 20)
    scores[torch.arange(20), 2 * classes + 1] = 1.0  # the second of two wordings tells all
    found = measure(scores, classes, 2)
    assert found == {"auc": pytest.approx(75.0), "accuracy": 100.0}
    assert Setting(0.1, 1, 65, 2.0).false_negatives == pytest.approx(6.4)


def test_the_page_has_every_setting_and_is_resumed(tmp_path: Path) -> None:
    options = ExperimentOptions("smoke", tmp_path / "out", seeds=2)
    outcome = run_experiment("when-it-helps", options)
    for name in SETTINGS:
        assert outcome.page.count(f"\n| {name} | ") >= 4
    gains = json.loads((tmp_path / "out/table.json").read_text())["gains"]
    equal = gains["equal classes"]["auc"]["end"]
    assert list(equal) == list(METHODS)
    assert equal["shuffled"] == equal["true"]  # every η is the same
    base = gains["base"]["auc"]["end"]
    assert len({one["value"] for one in base.values()}) == len(METHODS)
    assert (tmp_path / "out/figure.svg").read_text().startswith("<?xml")
    before = (tmp_path / "out/stages/setting-0-0.json").stat().st_mtime_ns
    assert run_experiment("when-it-helps", options).page == outcome.page
    assert (tmp_path / "out/stages/setting-0-0.json").stat().st_mtime_ns == before


def test_what_it_does_not_take_is_refused(tmp_path: Path) -> None:
    for options, says in (
        (ExperimentOptions("gpu", tmp_path / "a"), "--scale gpu: is not one of smoke, cpu"),
        (ExperimentOptions(out=tmp_path / "a", rows=("base",)), "--rows: when-it-helps takes none"),
    ):
        with pytest.raises(ConfigError, match=says):
            run_experiment("when-it-helps", options)
