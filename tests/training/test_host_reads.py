"""What a step must not do: wait for the device before its backward pass, or compute twice."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.config import load_config, objective_class, objective_names, read_objective
from cxrtext.errors import ConfigError
from cxrtext.training.data.drawn import Drawn
from cxrtext.training.data.loader import Examples
from cxrtext.training.initialization import build_model, center_projections
from cxrtext.training.loop.distributed import local_device
from cxrtext.training.loop.optimization import TrainingArguments, set_training
from cxrtext.training.objectives.shared.objective import Contrast, as_objective
from cxrtext.training.step import backward, scored
from tests.grids import grid
from tests.training.conftest import Counting, Facts, known_of
from tests.training.test_training_step import built, in_parts, masked, noise
from tests.training.test_training_step import examples as plain_examples

NAMES = tuple(objective_names())


class Reads(Counting):
    """Counts what waits for a GPU: values and sizes that Python asks for."""

    def name_of(self, function: Any, args: Any) -> str:
        name: str = function._schema.name
        masks = name.startswith("aten::index") and isinstance(args[1], list | tuple)
        waits = (
            name in ("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero")
            or name in ("aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::bincount")
            or (masks and any(a is not None and a.dtype == torch.bool for a in args[1]))
        )
        return name if waits else ""


def objective_of(name: str, symmetric: bool) -> Contrast:
    keys = {"symmetric": symmetric, "condition": ("age",), "keep": 3, "threshold": 0.5}
    taken = {key: value for key, value in keys.items() if key in objective_class(name).model_fields}
    return as_objective(read_objective({"name": name, **taken}))


def examples(objective: Contrast) -> Examples:
    """With sentences of different lengths, and all that an objective may ask for."""

    def ask(drawn: Drawn) -> dict[str, Any]:
        image_of, images = drawn.image_of, int(drawn.image_of.max()) + 1
        generator = torch.Generator().manual_seed(1)
        facts = Facts(
            image_of,
            torch.full((len(image_of),), 0.1),
            labels=torch.rand(images, 5, generator=generator) < 0.3,
            vectors=F.normalize(torch.randn(len(image_of), 6, generator=generator)),
            true=torch.rand(len(image_of), images, generator=generator) < 0.3,
            metadata=torch.arange(float(images))[:, None] % 3,
        )
        return known_of(objective, facts)

    return replace(plain_examples(), ask=ask)


@contextmanager
def reads_before_backward(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    found, plain, mode = Counter[str](), Tensor.backward, Reads()

    def recorded(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not found["steps"]:
            found.update(mode.found)
        found["steps"] += 1
        return plain(self, *args, **kwargs)  # type: ignore[no-untyped-call]

    with monkeypatch.context() as patch, mode:
        patch.setattr(Tensor, "backward", recorded)
        yield found


@grid(1, name=NAMES, accumulate=[1, 2])
def test_no_step_waits_for_the_device_before_its_backward_pass(
    options: list[str], name: str, accumulate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(None, [*options, "training.mlm_weight=0.5"])
    arguments = TrainingArguments(1, 8, mlm_weight=0.5, accumulate=accumulate)
    learner, objective = built(config), objective_of(name, symmetric=accumulate == 2)
    batch = examples(objective).batch(np.arange(8), np.random.default_rng(0), 2)
    batch = in_parts(masked(learner.model, batch), accumulate)
    set_training(learner.model, ())
    with reads_before_backward(monkeypatch) as found:
        backward(learner, objective, batch, noise(), arguments, step=0)
    assert found.pop("steps") == (1 if accumulate == 1 else 1 + accumulate)
    assert not found


class Sums(Counting):
    """Counts sums of exponentials: every loss takes them once a direction."""

    def name_of(self, function: Any, args: Any) -> str:
        name = function._schema.name
        return "sum" if name in ("aten::logsumexp", "aten::_linalg_solve_ex") else ""


@pytest.mark.parametrize(
    ("name", "once"),
    [
        ("dcl-eta-lm", 1),
        ("hard-negative", 2),  # of the weights as well
        ("fair-cclk", 1),  # one system of equations
    ],
)
def test_no_loss_is_computed_twice(name: str, once: int) -> None:
    objective = objective_of(name, symmetric=False)
    batch = examples(objective).batch(np.arange(8), np.random.default_rng(0))
    texts = F.normalize(torch.randn(8, 16, generator=torch.Generator().manual_seed(2)), dim=1)
    with Sums() as sums:
        objective(scored(14 * texts @ texts.T, batch.pairs, torch.tensor(14.0), texts, Mock()))
    # The log-sum-exp of a row without negatives is a case of its own, and no further sum.
    assert sums.found["sum"] == once


def test_centering_keeps_to_the_generators_of_its_own_device(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = torch.random.fork_rng, []

    def fork(*devices: Any) -> Any:
        seen.append(devices)
        return plain(*devices)

    model = build_model(load_config(None, options))
    monkeypatch.setattr(torch.random, "fork_rng", fork)
    center_projections(model, examples(objective_of("info-nce", False)), seed=0)
    assert seen == [([],)]  # without a list, all GPUs of the machine


@pytest.mark.parametrize("processes", [1, 2])
def test_one_gpu_is_not_for_all_processes_of_a_machine(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    monkeypatch.setenv("LOCAL_RANK", str(processes - 1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert local_device("cuda") == f"cuda:{processes - 1}"
    if processes == 1:  # of two machines
        assert local_device("cuda:1") == "cuda:1"
        return
    with pytest.raises(ConfigError, match="'cuda:1' is one GPU, and torchrun started 2 processes"):
        local_device("cuda:1")
    assert local_device("cpu") == "cpu"
