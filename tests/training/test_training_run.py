import re
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cxrtext.config import Config, load_config
from cxrtext.errors import CheckpointError, ConfigError, DataError, WorkError
from cxrtext.models import load_model
from cxrtext.records import read_sentences
from cxrtext.training import Listener, train
from cxrtext.training.loop.job import StepReport
from cxrtext.training.loop.resume import save_state
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Terms
from tests.records.test_reports_labels_boxes import save_sentences
from tests.training.conftest import metrics


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder / "checkpoint").state_dict()


def stop_at(step: int) -> Listener:
    """Presses Ctrl-C while a step is reported."""

    def press(report: StepReport, _total: int) -> None:
        if report.step == step:
            signal.raise_signal(signal.SIGINT)

    return Listener(step=press)


def resumed(config: Config) -> list[int]:
    """Resume a run; gives the steps that were taken."""
    seen: list[int] = []
    train(config, resume=True, listener=Listener(step=lambda r, _: seen.append(r.step)))
    return seen


def check_stopped_run(chosen: Sequence[str], folder: Path, stops: Sequence[int]) -> Config:
    """A run that is stopped at a step and resumed ends in the weights of an unbroken one."""
    whole = load_config(None, [*chosen, f"out={folder / 'whole'}"])
    train(whole)
    wanted = weights(whole.out)
    for stop in stops:
        broken = load_config(None, [*chosen, f"out={folder / f'broken-{stop}'}"])
        with pytest.raises(KeyboardInterrupt):
            train(broken, listener=stop_at(stop))
        assert resumed(broken) == list(range(stop + 1, whole.training.steps + 1))
        found = weights(broken.out)
        assert all(torch.equal(wanted[name], found[name]) for name in wanted)
    return whole


def test_a_stopped_run_goes_on_and_ends_in_the_same_weights(
    options: list[str], tmp_path: Path
) -> None:
    check_stopped_run([*options, "training.steps=6"], tmp_path, [4])
    whole, broken = (metrics(tmp_path / name) for name in ("whole", "broken-4"))
    for line in (*whole, *broken):
        line.pop("images_per_second", None)
        line.pop("waiting", None)
    assert whole == broken


@pytest.fixture(scope="module")
def two_steps(
    options_into: Callable[[Path], list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the run of two steps that is copied for each test."""
    folder = tmp_path_factory.mktemp("two-steps")
    train(load_config(None, [*options_into(folder / "run"), "training.steps=2"]))
    return folder


@pytest.fixture
def trained(options: list[str], two_steps: Path, tmp_path: Path) -> list[str]:
    """The settings of a finished run of two steps."""
    shutil.copytree(two_steps / "run", tmp_path / "run")
    return [*options, "training.steps=2"]


def test_a_finished_run_is_resumed_without_a_step_and_not_trained_again(trained: list[str]) -> None:
    config = load_config(None, trained)
    before = weights(config.out)
    with pytest.raises(ConfigError, match="holds a training run already.*--resume"):
        train(config)
    assert not resumed(config)
    after = weights(config.out)
    assert all(torch.equal(before[name], after[name]) for name in before)
    otherwise = [*trained, "training.log_every=1", "training.save_every=5"]  # is no other run
    assert train(load_config(None, otherwise), resume=True).steps == 2


def test_another_configuration_or_other_data_cannot_resume(
    trained: list[str], sentences_table: Path, tmp_path: Path
) -> None:
    for change, says in (
        ("training.steps=3", "training.steps was 2 and is now 3"),
        ("model.lam=5", "model.lam was 10.0 and is now 5.0"),
        ("objective.symmetric=true", "objective.symmetric was False and is now True"),
    ):
        with pytest.raises(CheckpointError, match=f"another configuration: {says}"):
            train(load_config(None, [*trained, change]), resume=True)
    changed = tmp_path / "changed.csv"
    lines = sentences_table.read_text().splitlines(keepends=True)
    changed.write_text("".join(lines[:-1]))
    with pytest.raises(CheckpointError, match="by a run on other data"):
        train(load_config(None, [*trained, f"data.sentences={changed}"]), resume=True)


def test_a_state_that_is_damaged_or_would_run_code_is_refused(
    trained: list[str], tmp_path: Path
) -> None:
    config = load_config(None, trained)
    (state,) = (config.out / "state").glob("step-*.pt")
    state.write_bytes(b"not a state")
    with pytest.raises(CheckpointError, match=r"step-00000002-.*not a readable training state"):
        train(config, resume=True)
    state.unlink()
    planted = tmp_path / "planted"

    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return planted.touch, ()

    save_state(config.out / "state", 2, {"key": Payload()})
    with pytest.raises(CheckpointError, match="not a readable training state"):
        train(config, resume=True)
    assert not planted.exists()


def test_tables_that_do_not_meet(options: list[str], tmp_path: Path) -> None:
    table = tmp_path / "other.csv"
    table.write_text(
        "study_id,section,position,sentence,n_tokens,log_likelihood,eta\n"
        "elsewhere,findings,0,Clear.,2,-1,0.1\n"
    )
    with pytest.raises(DataError, match="0 training image"):
        train(load_config(None, [*options, f"data.sentences={table}"]))


def test_a_loss_that_is_no_number_stops_the_run(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Contrast):
        def __call__(self, d: Direction) -> Terms:
            return Terms(d.scores[:, 0] * (0.0 if len(seen) < 3 else float("nan")))

    seen: list[int] = []
    monkeypatch.setattr(
        "cxrtext.training.image_text.as_objective", lambda section: Broken(name=section.name)
    )
    config = load_config(None, [*options, "training.save_every=2"])
    with pytest.raises(WorkError, match="not a number at step 4; lower training.lr") as error:
        train(config, listener=Listener(step=lambda r, _: seen.append(r.step)))
    assert "the last good state is that of step 2" in str(error.value)


def test_sentences_without_eta_are_left_out_and_counted(
    options: list[str], sentences_table: Path, tmp_path: Path
) -> None:
    rows = read_sentences(sentences_table)
    foreign = replace(rows[0], position=9, sentence="Норма.", n_tokens=2, eta=None, unknown=1)
    save_sentences(tmp_path / "s.csv", [*rows, foreign, replace(foreign, position=10)])
    said: list[str] = []
    chosen = [*options, f"data.sentences={tmp_path / 's.csv'}", "training.steps=2"]
    train(load_config(None, chosen), listener=Listener(say=said.append))
    assert f"{len(rows)} sentences, on cpu" in said[0]
    assert "s.csv: 2 sentences are left out: they have no eta" in said[1]
    save_sentences(tmp_path / "s.csv", [foreign])
    with pytest.raises(DataError, match="s.csv: no sentence has an eta"):
        train(load_config(None, [*chosen, f"out={tmp_path / 'other'}"]))


def test_a_training_that_learned_nothing_says_so(
    options: list[str],
    options_into: Callable[[Path], list[str]],
    run_folder: Path,
    data_folder: Path,
    tmp_path: Path,
) -> None:
    still = ("training.steps=1", "training.lr=1e-9", "training.warmup=0")
    for labels, said in (
        ("labels.csv", r"validation AUC \.\d\d, chance \.50 \(p = [.1]\d+, 8 images\): nothing"),
        (None, r"validation in-batch accuracy \.\d+, chance \.125 \(p = .*match images and"),
    ):
        if labels is None:
            shutil.copytree(data_folder, tmp_path / "set")
            (tmp_path / "set/labels.csv").unlink()
            options = [*options, f"data.manifest={tmp_path / 'set/manifest.csv'}"]
        out = f"out={tmp_path / str(labels)}"
        assert re.match(said, train(load_config(None, [*options, *still, out])).warning)
    shutil.copytree(run_folder, tmp_path / "learned")
    learned = train(load_config(None, options_into(tmp_path / "learned")), resume=True)
    assert learned.warning == ""
