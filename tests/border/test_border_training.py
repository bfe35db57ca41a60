"""Runs: trained, killed, resumed; what they leave."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import cxrtext
from tests.border.conftest import flip, killed_once, out, refusal, tree
from tests.commands import cxrtext as command
from tests.warm import Warm


def test_a_killed_run_resumes_to_the_weights_of_one_that_was_not(
    training: list[str], warm: Warm, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    killed_once(warm, folder / "state", "train", *training, *out(tmp_path))
    assert not (folder / "checkpoint/model.safetensors").exists()
    command("train", "--resume", folder)
    command("train", *training, *out(tmp_path / "whole"))
    resumed = load_file(folder / "checkpoint/model.safetensors")
    whole = load_file(tmp_path / "whole/run/checkpoint/model.safetensors")
    assert resumed.keys() == whole.keys()
    for name, weights in whole.items():
        np.testing.assert_array_equal(resumed[name], weights, err_msg=name)


def test_a_run_writes_its_configuration_metrics_and_checkpoint(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert max(line["step"] for line in lines) == 40
    assert {"train", "val"} == {line["kind"] for line in lines}
    assert (run / "config.yaml").is_file()


def test_a_run_is_not_written_over(run: Path, training: list[str]) -> None:
    line = refusal("train", *training, "--set", f"out={run}")
    assert str(run) in line


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("training.lr=fast", "training.lr"), ("training.stepz=3", "stepz"),
        ("objective.name=magic", "objective"), ("model.dimension=-1", "dimension"),
        ("data.manifest=gone.csv", "gone.csv"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_and_nothing_is_begun(
    setting: str, named: str, training: list[str], tmp_path: Path
) -> None:
    assert named in refusal("train", *training, *out(tmp_path), "--set", setting)
    assert not (tmp_path / "run/checkpoint").exists()


def test_a_checkpoint_embeds_unit_vectors_and_scores_them(checkpoint: Path) -> None:
    model = cxrtext.load_model(checkpoint)
    said = model.embed_sentences(["Left pleural effusion.", "No pneumothorax."])
    assert said.shape == (2, 16)
    np.testing.assert_allclose(np.linalg.norm(said.cpu().numpy(), axis=1), 1, atol=1e-5)


def test_a_damaged_checkpoint_is_refused_with_its_file(checkpoint: Path, tmp_path: Path) -> None:
    for name, data in tree(checkpoint).items():
        (tmp_path / name).write_bytes(data)
    weights = tmp_path / "model.safetensors"
    flip(weights)
    line = refusal("classify", tmp_path, weights.with_name("x.png"))
    assert "x.png" in line or "model.safetensors" in line
    done = command("check-files", tmp_path, code=1)
    assert "model.safetensors" in done.stdout + done.stderr


@pytest.mark.parametrize("objective", ["info-nce", "dcl-eta", "hard-negative", "reweight-by-text"])
def test_other_objectives_train_by_name(
    objective: str, training: list[str], tmp_path: Path
) -> None:
    few = [f"training.{name}=4" for name in ("steps", "validate_every", "save_every", "warmup")]
    words = [word for one in few for word in ("--set", one)]
    named = "--set", f"objective.name={objective}"
    command("train", *training, *out(tmp_path), *words, *named)
    assert (tmp_path / "run/checkpoint/model.safetensors").is_file()
