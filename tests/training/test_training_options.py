"""Whole runs of a few steps, one option each, and what is refused before work begins."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from cxrtext.config import load_config, template
from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.experiments.definition import load_experiment
from cxrtext.models import load_model
from cxrtext.records import write_table
from cxrtext.training import Listener, train
from cxrtext.training.initialization import training_arguments
from cxrtext.training.loop.job import RunProgress, check_loss
from cxrtext.training.loop.optimization import TrainingArguments
from tests.conftest import read_csv
from tests.training.conftest import metrics


@pytest.mark.parametrize(
    "changes",
    [
        ["training.precision=float16"],
        ["training.precision=bfloat16", "training.accumulate=4"],
        [
            *("model.similarity=global", "training.mlm_weight=0.1"),
            *("objective.name=dcl-eta", "objective.eta=0.1", "objective.symmetric=true"),
        ],
        ["training.sentences=2", "training.section_weights={findings: 2}"],
    ],
)
def test_options_train(options: list[str], changes: list[str]) -> None:
    config = load_config(None, [*options, *changes, "training.steps=4", "training.log_every=1"])
    summary = train(config)
    assert summary.validation["loss"] > 0
    assert 0 <= summary.validation["auc"] <= 1
    assert summary.best == config.out / "checkpoint-best"
    for row in metrics(config.out, "train"):
        assert 0 <= row["waiting"] <= 1
        assert (row["mlm"] > 0) == (config.training.mlm_weight > 0)
    load_model(config.out / "checkpoint")


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."), "the GPU"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate"), "this machine"),
        (MemoryError(), "this machine"),
    ],
)
def test_where_memory_ends_one_line_says_what_to_change(
    options: list[str], error: Exception, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.training.step.backward", Mock(side_effect=error))
    advice = r"training.accumulate=2, .* training.batch \(now 8\)"
    with pytest.raises(WorkError, match=f"^the memory of {whose} is used up; .*{advice}"):
        train(load_config(None, [*options, "training.steps=1"]))


def test_the_best_model_is_kept(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([3.0, 2.0, 2.5, 2.5])
    monkeypatch.setattr("cxrtext.training.trainer.validate", lambda *_: {"loss": next(values)})
    config = load_config(None, [*options, "training.validate_every=2", "training.steps=8"])
    assert train(config).best_step == 4
    best = json.loads((config.out / "checkpoint-best/training.json").read_text())
    assert best["step"] == 4


def test_a_diverging_run_is_stopped() -> None:
    progress, recipe = RunProgress(), TrainingArguments(steps=100, batch=8)
    for step, loss in enumerate([2.0, *[9.0] * 19, 2.0, *[9.0] * 19]):
        check_loss(progress, loss, step, recipe)
    with pytest.raises(WorkError, match=r"diverged at step 41: above 5.1 for 20.*training.lr"):
        check_loss(progress, 9.0, 40, recipe)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        (["training.batch=64"], DataError, "28 training images have text, fewer than"),
        (["data.crop=60"], ConfigError, "data.crop: 60 is not a multiple of 16"),
        (["training.device=cuda:97"], ConfigError, "not on this machine"),
        (["training.lock=[text]", "training.mlm_weight=1"], ConfigError, "which lock keeps frozen"),
        (["training.section_weights={words: 2}"], ConfigError, "has no section 'words'"),
    ],
)
def test_what_cannot_work_is_refused(
    options: list[str], changes: list[str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        train(load_config(None, [*options, *changes]))


def test_nothing_is_decoded_before_the_tables_are_checked(
    options: list[str], data_folder: Path, tmp_path: Path
) -> None:
    rows = read_csv(data_folder / "manifest.csv")
    rows[1]["patient_id"] = rows[5]["patient_id"]  # train and val
    table = tmp_path / "manifest.csv"
    write_table(table, list(rows[0]), rows)
    with pytest.raises(DataError, match="is in two splits"):
        train(load_config(None, [*options, f"data.manifest={table}"]))
    best = [*options, "training.best=val/auc", "training.batch=2"]
    kept = [row for row in rows if row["split"] == "train"][:4]
    whole = [{**row, "image": str(data_folder / row["image"])} for row in kept]
    write_table(table, list(rows[0]), whole)
    chosen = [*best, f"data.manifest={table}", "data.allow_outside=true"]
    with pytest.raises(ConfigError, match=r"val/auc needs labels of validation images"):
        train(load_config(None, chosen))


SIZES = ["studies-300", "studies-3000", "studies-30000"]


@pytest.mark.parametrize("name", ["ssd-mimic-cxr", "biovil-baseline", "demo/train", *SIZES])
def test_the_configurations_that_come_with_the_package_are_valid(name: str, tmp_path: Path) -> None:
    (tmp_path / "here.yaml").write_text(template(f"{name}.yaml"))
    config = load_config(tmp_path / "here.yaml")
    assert config.data.manifest.is_relative_to(tmp_path if name in SIZES else tmp_path / "data")
    if name == "ssd-mimic-cxr":  # SSD section 3.2
        training, model = config.training, config.model
        assert (training.batch, training.lr, training.warmup) == (64, 1e-5, 2000)
        assert (model.image, model.dimension, model.gamma_sq) == ("resnet18", 128, 14.0)
        assert (config.data.resize, config.data.crop) == (512, 480)


@pytest.mark.parametrize("name", ["ssd-mimic-cxr", "biovil-baseline"])
def test_there_is_one_recipe_of_the_paper(name: str, tmp_path: Path) -> None:
    (tmp_path / "here.yaml").write_text(template(f"{name}.yaml"))
    training = load_config(tmp_path / "here.yaml").training
    scale = load_experiment("table1").scales["paper"].settings["training"]
    written = training.model_dump()
    assert {key: written[key] for key in scale if key != "log_every"} == {
        key: value for key, value in scale.items() if key != "log_every"
    }
    # The paper's recipe knows neither; the defaults of a configuration have both.
    assert (training.clip, training.center_projections) == (0, False)
    config = load_config(None, ["data.manifest=m", "data.sentences=s", "training.clip=0"])
    assert training_arguments(config, torch.device("cpu")).clip == float("inf")


def test_labels_that_are_not_needed_do_not_stop_a_run(
    options: list[str], data_copy: Path, tmp_path: Path
) -> None:
    (data_copy / "labels.csv").write_text("study_id,Pneumothorax\ns00,perhaps\n")
    chosen = [*options, f"data.manifest={data_copy / 'manifest.csv'}", "training.steps=1"]
    said: list[str] = []
    summary = train(load_config(None, chosen), listener=Listener(say=said.append))
    assert "auc" not in summary.validation
    assert any("no zero-shot AUC" in line and "row 1" in line for line in said)
    needed = [*chosen, "training.best=val/auc", f"out={tmp_path / 'needed'}"]
    with pytest.raises(DataError, match="row 1, column Pneumothorax: 'perhaps'"):
        train(load_config(None, needed))


def test_prompts_without_labels_are_refused_before_work(
    options: list[str], data_copy: Path, tmp_path: Path
) -> None:
    (data_copy / "labels.csv").unlink()
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text("Edema: {positive: [Edema], negative: [No edema]}\n")
    chosen = [f"data.manifest={data_copy / 'manifest.csv'}", f"training.prompts={prompts}"]
    with pytest.raises(ConfigError, match=r"training.prompts: is for the AUC of a labels.csv"):
        train(load_config(None, [*options, *chosen]))
