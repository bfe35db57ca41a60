"""The CUDA branches, run without a GPU; see :mod:`tests.device.pretend` for what that shows."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.device.on_device import PRECISIONS, STEPS, WORK
from tests.device.pretend import build

ROOT = Path(__file__).parents[2]
PINNED = re.search(r"^torch==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler"),
    pytest.mark.skipif(
        PINNED is None or torch.__version__ != f"{PINNED[1]}+cpu",
        reason="written for a CPU build of the pinned PyTorch",
    ),
]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each piece of work found under the device; all in one process, which starts once."""
    folder = tmp_path_factory.mktemp("device")
    subprocess.run(
        [sys.executable, "-m", "tests.device", build(folder), folder],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    found: dict[str, dict[str, Any]] = json.loads((folder / "found.json").read_text())
    return found


@pytest.mark.parametrize("name", WORK)
def test_work_is_done_without_mixing_devices(name: str, every: dict[str, Any]) -> None:
    assert "error" not in every[name], every[name]["error"]


def test_golden_answers_are_in_float32_whatever_the_program_chose(every: dict[str, Any]) -> None:
    assert every["golden"]["tf32"]
    assert every["golden"]["others apart"] > 1e-5
    assert every["golden"]["golden apart"] < 1e-6


def test_the_policy_of_a_gpu(every: dict[str, Any]) -> None:
    assert {name: every["device"][name] for name in ("chosen", "gpus", "tf32")} == {
        "chosen": {"7": [False, "float32"], "8": [True, "bfloat16"]},
        "gpus": ["cuda:0"],
        "tf32": [False, False],
    }


def test_scores_and_answers_are_those_of_a_cpu(every: dict[str, Any]) -> None:
    assert every["scoring"]["sentences"]
    assert every["scoring"]["apart"] < 1e-4
    assert every["index and search"]["cuda"] == pytest.approx(
        every["index and search"]["cpu"], abs=1e-4
    )


def test_trainings_learn_as_on_a_cpu(every: dict[str, Any]) -> None:
    expected = every["train on the CPU"]["losses"]
    for precision in PRECISIONS:
        found = every[f"train {precision}"]
        assert f"on cuda:0 in {precision}" in found["said"]
        if precision == "float32":
            assert found["losses"] == pytest.approx(expected, rel=1e-4)
        assert found["losses"][0] == pytest.approx(expected[0], rel=0.02)
        assert len(found["losses"]) == STEPS
    unbroken = every["train in parts"]["losses"]
    assert every["resume"]["losses"] == pytest.approx(unbroken[2:], rel=1e-4)


def test_a_training_on_features_keeps_its_reference(every: dict[str, Any]) -> None:
    assert {"golden", "model", "reference"} <= {*every["features"]["beside"]}
    assert every["features"]["images"]


def test_the_language_model_is_timed_on_the_device(every: dict[str, Any]) -> None:
    assert every["estimate"]["on device"] > 0


@pytest.mark.parametrize("name", [name for name in WORK if name.startswith("two GPUs")])
def test_the_branches_of_several_gpus(name: str, every: dict[str, Any]) -> None:
    assert every[name]["backends"] == ["cpu:gloo,cuda:nccl"]
    assert "2 processes" in every[name]["said"]
    assert len(every[name]["losses"]) == STEPS


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_waits_twice_for_the_device(precision: str, every: dict[str, Any]) -> None:
    waits = every[f"train {precision}"]["waits"]
    of_a_step = {name: count / STEPS for name, count in waits.items() if count % STEPS == 0}
    of_saving = {"models/weight_files.py <dictcomp>", "training/loop/resume.py <lambda>"}
    assert {name: of_a_step[name] for name in of_a_step.keys() - of_saving} == {
        "training/step.py gradients": 1,  # the loss and its measures
        "training/loop/job.py _update": 1,  # the norm of the gradients
    }
