"""The rows and scales: every configuration is valid, and the budget is the same."""

from pathlib import Path

import pytest

from cxrtext.config import Config, first_difference, load_config
from cxrtext.experiments import ExperimentOptions
from cxrtext.experiments.experiment import choose
from cxrtext.experiments.papers.table1 import BY_FINDING, MEASURES, SCALES, TABLE1, trials_of
from cxrtext.experiments.preparation import Prepared
from cxrtext.experiments.runner import check_run
from cxrtext.experiments.table1 import Table1, plan, unequal_budget


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("manifest", "labels", "labels_from_reports", "truth"):
        (data / f"{name}.csv").write_text("study_id\n")
    (data / "phantom.json").write_text("{}")
    model = tmp_path / "language-model"
    model.mkdir()
    return Prepared(
        data, data / "manifest.csv", tmp_path / "s.csv", str(model), tmp_path / "decoded", {}
    )


@pytest.mark.parametrize("scale", list(SCALES))
def test_every_row_is_valid_and_has_the_same_budget(
    scale: str, prepared: Prepared, tmp_path: Path
) -> None:
    rows, usual = trials_of(SCALES[scale])
    assert {row.name for row in usual} <= {row.name for row in rows}
    runs, missing = plan(rows, 2, tmp_path / "out", prepared, SCALES[scale])
    assert not missing
    assert len(runs) == len({run.folder for run in runs}) == 2 * len(rows)
    kind = Table1(ExperimentOptions(scale))
    assert [check_run(kind, run) for run in runs] == [None] * len(runs)
    assert not any(run.is_done() for run in runs)
    configs: list[Config] = [load_config(run.folder / "train.yaml") for run in runs]
    live = [run.row.startswith("live-") for run in runs]
    for column in {*live}:
        some = [config for config, one in zip(configs, live, strict=True) if one == column]
        assert unequal_budget([config.model_dump(mode="json") for config in some]) is None
    for run, config in zip(runs, configs, strict=True):
        moving = run.row.startswith("live-")
        columns = bool(SCALES[scale].columns)
        assert config.training.lock == (("image", "text") if columns and not moving else ())
        assert config.training.seed == run.seed
        assert config.out.resolve() == (run.folder / "train").resolve()
        assert config.data.manifest.resolve() == prepared.manifest.resolve()
        assert Path(config.model.text).resolve() == Path(prepared.language_model).resolve()
        assert config.model.similarity == ("global" if run.row.endswith("biovil") else "lse+nl")
    by_name = {run.row: config for run, config in zip(runs, configs, strict=True)}
    chosen = {name: config.objective.model_dump() for name, config in by_name.items()}
    assert chosen["dcl-eta-0.1"]["eta"] == 0.1
    assert chosen["biovil"]["symmetric"]
    resampled = by_name["resample-by-text"]
    assert 2 * chosen["resample-by-text"]["keep"] == resampled.training.batch
    labels = chosen["remove-by-labels"]["labels"]
    assert labels is not None
    assert labels.name == "labels_from_reports.csv"


def test_rows_that_lack_their_table_are_named(prepared: Prepared, tmp_path: Path) -> None:
    (prepared.data / "truth.csv").unlink()
    (prepared.data / "phantom.json").unlink()
    rows = choose(trials_of(SCALES["smoke"])[0], [row.name for row in TABLE1])
    runs, missing = plan(rows, 1, tmp_path / "out", prepared, SCALES["smoke"])
    assert len(runs) == 10
    needed = {"dcl-eta-true": "truth.csv", "remove-by-truth": "phantom.json"}
    for name, file in needed.items():
        assert missing.pop(name) == f"{prepared.data}: holds no {file}, which this row needs"
    assert not missing


def test_rows_stand_in_the_order_of_the_table() -> None:
    assert [row.name for row in choose(TABLE1, ["dcl-eta-lm", "biovil"])] == [
        "biovil",
        "dcl-eta-lm",
    ]
    assert choose(TABLE1, None) == TABLE1
    for row in TABLE1:
        assert {*row.paper} - {one.name for one in BY_FINDING} in ({*MEASURES}, set())


def test_the_first_difference_is_named() -> None:
    one = {"a": {"b": 1, "c": 2}, "d": 3}
    assert first_difference(one, {"a": {"b": 1, "c": 2}, "d": 3}) is None
    assert first_difference(one, {"a": {"b": 1, "c": 4}, "d": 5}) == ("a.c", 2, 4)
    assert first_difference(one, {"a": {"b": 1}}) == ("a.c", 2, None)
    assert first_difference(one, {"a": {"b": 1}, "e": 0}, shared=True) is None
