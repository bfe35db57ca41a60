"""Verdicts, the paper's order and the page, on figures that are made up."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import WorkError
from cxrtext.evaluation.intervals.bootstrap import Resampled
from cxrtext.experiments import page as pages
from cxrtext.experiments.experiment import Experiment, Group, Measure, Scale, Trial
from cxrtext.experiments.figures import draw_figures
from cxrtext.experiments.measures import Measures
from cxrtext.experiments.processes import Finished, Run
from cxrtext.experiments.runner import require_finished
from cxrtext.experiments.views import build_table, head
from cxrtext.page import markdown


def markdown_page(table: dict[str, Any]) -> str:
    return markdown("Made up", pages.sections(table, Path()), head(table))


def order_text(order: Any) -> str:
    return " ".join(text.text for text in pages.order_text(order))


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


def table_of(*runs: Finished, seeds: int = 1, failures: Any = None) -> dict[str, Any]:
    trials = [(GROUP, one) for one in GROUP.trials]
    table = build_table(EXPERIMENT, trials, runs, failures or {})
    return {
        "experiment": "made-up", "title": "Made up", "source": "Nobody 2020", "question": "is it?",
        "scale": "cpu", "given": "a file", "seeds": seeds, "machine": "1 core", "versions": "v1",
        "different": ["everything"], "figures": [], "left_out": [], **table,
    }  # fmt: skip


def test_a_smaller_figure_is_better_where_the_measure_says_so() -> None:
    table = table_of(finished("base", 50, 30), finished("good", 50.1, 25))
    base, good, other = table["groups"][0]["rows"]
    assert base["difference"] == {}
    assert other["measures"] == {}
    assert good["difference"]["accuracy"]["verdict"] == "better"  # paired: the noise is the same
    assert good["difference"]["site accuracy"]["verdict"] == "better"
    assert good["difference"]["site accuracy"]["value"] == -5
    assert table["order"]["pairs"] == 2
    assert table["order"]["agree_clearly"] == 2
    assert table["order"]["tau"] == 1
    assert "The paper's order appears in all pairs" in order_text(table["order"])


def test_a_reversed_order_is_said() -> None:
    table = table_of(finished("base", 50, 30), finished("good", 45, 35))
    assert table["order"]["contrary_clearly"] == 2
    assert table["order"]["tau"] == -1
    assert "does not appear: it is reversed where rows are distinguishable" in order_text(
        table["order"]
    )
    mixed = order_text(table_of(finished("base", 50, 30), finished("good", 45, 25))["order"])
    assert "appears in 1 of the 2 pairs that can be distinguished" in mixed
    same = order_text(table_of(finished("base", 50, 30), finished("good", 50, 30))["order"])
    assert "it is not clear" in same
    assert "No two rows" in order_text(table_of(finished("base", 50, 30))["order"])


def test_the_page() -> None:
    failures = {"other": [{"seed": 0, "line": "no memory"}]}
    runs = [finished("base", 50, 30), finished("good", 60, 25)]
    page = markdown_page(table_of(*runs, failures=failures))
    assert "| the good | 60.0 [58." in page
    assert "| 80.0 | -20.0 |" in page  # the paper's, and ours less it
    assert "| the other | failed |" in page
    assert "- other, seed 0: no memory" in page
    assert "9 steps of 4 images" in page
    assert "site accuracy (smaller is better)" in page
    assert "paper +10.0" in page
    assert "| the good | 0 | 9 | 36 | 12 | 1 | 60.0 | 25.0 |" in page


def test_several_seeds() -> None:
    runs = [finished("base", 50, 30), finished("base", 52, 30, 1), finished("good", 60, 20, 1)]
    table = table_of(*runs, seeds=2)
    base, good, _ = table["groups"][0]["rows"]
    assert base["measures"]["accuracy"]["value"] == 51
    assert base["measures"]["accuracy"]["deviation"] == pytest.approx(2**0.5)
    assert good["difference"]["accuracy"]["value"] == 8  # on the seed that both have
    assert "± 1.4" in markdown_page(table)


def test_where_everything_failed() -> None:
    with pytest.raises(WorkError, match="every row failed; the first, base: no memory"):
        require_finished([], {"base": [{"seed": 0, "line": "no memory"}]})


def test_figures_are_drawn(tmp_path: Path) -> None:
    table = table_of(finished("base", 50, 30), finished("good", 60, 25))
    (path,), left_out = draw_figures(table, tmp_path)
    assert left_out == []
    assert path.stat().st_size > 5_000
    fair, _ = draw_figures(table | {"experiment": "fair-cclk"}, tmp_path)
    assert [one.name for one in fair] == ["rows.png", "trade.png"]
