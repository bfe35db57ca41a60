import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from safetensors.torch import load_file

from cxrtext.config import objective_names
from cxrtext.errors import WorkError
from cxrtext.training.loop.steps import StopRequest
from tests.pacs.orthanc import free_port
from tests.training.conftest import Gradients, check_equal, metrics, objective_options
from tests.waiting import until
from tests.warm import Program, Warm

SCRIPT = Path(__file__).with_name("gradients_of_a_step.py")


Start = Callable[[Sequence[str | Path], int], list[Program]]
Training = Callable[[Sequence[str], int], list[Program]]


@pytest.fixture(scope="module")
def start(warm: Warm) -> Start:
    def started(arguments: Sequence[str | Path], world: int) -> list[Program]:
        port = str(free_port())
        return [
            warm.start(
                arguments,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "WORLD_SIZE": str(world),
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                },
            )
            for rank in range(world)
        ]

    return started


@pytest.fixture
def training(start: Start) -> Training:
    def started(options: Sequence[str], world: int) -> list[Program]:
        sets = [part for option in options for part in ("--set", option)]
        return start(["-m", "cxrtext.training", *sets], world)

    return started


def gradients_of(
    start: Start, folder: Path, cases: Mapping[str, Sequence[str]], world: int
) -> dict[str, Gradients]:
    """The gradients that processes find for each case, one case after the other."""
    folder.mkdir(exist_ok=True)
    (folder / "cases.json").write_text(json.dumps(cases))
    for process in start([SCRIPT, folder], world):
        _, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
        assert "FutureWarning" not in error
    return {name: load_file(folder / f"{name}.safetensors") for name in cases}


CASES = {
    "plain": ["training.sentences=2"],
    "symmetric": ["objective.symmetric=true"],
    "micro-batches": ["training.accumulate=2", "training.lock=[image]"],
    "conditional": [
        "objective.name=y-aware",
        "objective.condition=[age]",
        "objective.kernel=rbf",
    ],
}

# The truth of a drawn set is not that of these images; its loss is that of remove-by-report.
COMPARED = [name for name in objective_names() if name != "remove-by-truth"]
QUICK = ("remove-by-text", "hardneg-cclk", "positive-debiased")
"""Of each way in which a loss reads the batch beside its scores, one; the others are slow."""


IN_PARTS = {
    "whole": ["training.sentences=2", "training.lock=[image]"],
    "parts": ["training.sentences=2", "training.lock=[image]", "training.accumulate=4"],
}


@pytest.fixture(scope="module")
def found(
    start: Start,
    request: pytest.FixtureRequest,
    options_into: Callable[[Path], list[str]],
    sentences_table: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[int, dict[str, Gradients]]:
    """The gradients of each case in one process and in two, which are started once for all."""
    folder = tmp_path_factory.mktemp("gradients")
    more = sentences_table, folder / "truth.csv"
    every = CASES | {
        name: [*objective_options(name, *more), "training.sentences=2", "model.gamma_sq=2"]
        for name in COMPARED
    }
    items = [item for item in request.session.items if hasattr(item, "callspec")]
    asked = {item.callspec.params.get("case") for item in items}
    every = {name: case for name, case in every.items() if name in asked}

    def of(cases: Mapping[str, Sequence[str]], world: int) -> dict[str, Gradients]:
        chosen = {n: [*options_into(folder / n), *case] for n, case in cases.items()}
        return gradients_of(start, folder / str(world), chosen, world)

    return {1: of(every | IN_PARTS, 1), 2: of(every, 2)}


@pytest.mark.parametrize(
    "case",
    [
        *(*CASES, *QUICK),
        *(pytest.param(name, marks=pytest.mark.slow) for name in COMPARED if name not in QUICK),
    ],
)
def test_two_processes_have_the_gradients_of_one(
    found: dict[int, dict[str, Gradients]], case: str
) -> None:
    # Some objectives' gradients are small beside the parts that they are the sum of.
    tolerance = 1e-4 if case in objective_names() else 1e-5
    check_equal(found[1][case], found[2][case], tolerance, {"log_gamma_sq": 1e-3})


def test_parts_in_turn_have_the_gradients_of_the_whole(
    found: dict[int, dict[str, Gradients]],
) -> None:
    """With an image encoder whose batch norms use fixed statistics; others see their part only."""
    whole, parts = (found[1][name] for name in ("whole", "parts"))
    check_equal(whole, parts, 1e-5, {"log_gamma_sq": 1e-3})


def test_two_processes_train_validate_and_write_once(
    training: Training, options: list[str], tmp_path: Path
) -> None:
    chosen = [*options, "training.steps=6", "training.validate_every=3", "training.save_every=3"]
    said = []
    for process in training(chosen, 2):
        out, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
        said.append(out)
    assert "2 processes" in said[0]
    assert "checkpoint:" in said[0]
    assert said[1] == ""
    run = tmp_path / "run"
    assert (run / "checkpoint/model.safetensors").is_file()
    assert len(metrics(run, "val")) == 2


@pytest.mark.slow  # the gradients of both are compared above
def test_two_processes_go_from_locked_to_live_as_one_does(
    training: Training, options: list[str], language_model: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(language_model, tmp_path / "still"))
    config = json.loads((model / "config.json").read_text())
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (model / "config.json").write_text(json.dumps({**config, **still}))  # else each draws its own
    chosen = [*options, "training.steps=6", "training.lock=[image]", "training.unlock=3"]
    chosen += ["training.lr=1e-4", "training.precision=float32", "training.log_every=1"]
    chosen += [f"model.text={model}"]
    losses = []
    for world in (1, 2):
        out = tmp_path / str(world)
        for process in training([*chosen, f"out={out}"], world):
            assert process.communicate(timeout=600)[1] is not None
            assert process.returncode == 0
        losses.append([line["loss"] for line in metrics(out, "train")])
    assert len(losses[0]) == 6
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_an_error_of_one_ends_all_with_one_line(training: Training, options: list[str]) -> None:
    processes = training([*options, "training.batch=9"], 2)
    errors = [process.communicate(timeout=600)[1] for process in processes]
    lines = [line for error in errors for line in error.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "9 images cannot be divided among 2 process(es)" in lines[0]
    assert all(process.returncode for process in processes)


def test_a_process_that_is_killed_ends_the_others_with_one_line(
    training: Training, options: list[str], tmp_path: Path
) -> None:
    chosen = [*options, "training.steps=1000000", "training.log_every=1"]
    first, second = training(chosen, 2)
    log = tmp_path / "run/metrics.jsonl"
    until(lambda: log.is_file() and log.stat().st_size)
    second.kill()
    error = first.communicate(timeout=600)[1]
    second.communicate()
    lines = [line for line in error.splitlines() if "error:" in line]
    assert len(lines) == 1
    assert "lost the connection to another process" in lines[0]
    assert "Traceback" not in error
    assert first.returncode == WorkError.exit_code


def test_a_stop_may_be_asked_for_twice_by_sigterm() -> None:
    with StopRequest() as stop:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
