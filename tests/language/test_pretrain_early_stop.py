from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cxrtext.language import PretrainSummary, pretrain_text
from cxrtext.language.pretraining import train as pretrain_run
from cxrtext.language.pretraining.state import History
from cxrtext.language.pretraining.train import Step
from cxrtext.models.masked_lm import fingerprint_of, load_masked_language_model

LOSSES = [3.0, 2.0, 2.5, 2.0, 2.2, 1.0, 0.5]
"""Made up: epoch 2 is the best, and with patience 3 epoch 5 is the last."""


class StopError(Exception):
    pass


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "reports.csv"
    rows = (f"s{n},The lungs are clear. Heart size is {n % 7} normal.\n" for n in range(40))
    path.write_text("study_id,report\n" + "".join(rows))
    return path


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out losses that do not depend on the model, so that they rise when a test wants it.

    Their number is that of the run's epoch, which a resumed run goes on counting.
    """

    def measure(run: pretrain_run.PretrainRun, special: object, step: Step) -> None:
        run.done = step.number
        if step.ends_epoch:
            run.history.add(run.model, LOSSES[run.history.epochs], 1.0)

    monkeypatch.setattr(pretrain_run, "_measure", measure)


def train(
    corpus: Path, out: Path, patience: int, progress: Callable[[int, int], None] | None = None
) -> PretrainSummary:
    small: dict[str, Any] = {"size": "demo", "hidden": 16, "layers": 1, "vocabulary_size": 200}
    return pretrain_text(
        corpus,
        out,
        epochs=7,
        batch_tokens=256,
        patience=patience,
        progress=progress,
        device="cpu",
        **small,
    )


@pytest.mark.usefixtures("made_up")
def test_training_stops_and_the_best_epoch_is_kept(corpus: Path, tmp_path: Path) -> None:
    totals: list[int] = []

    def count(step: int, total: int) -> None:
        assert step == len(totals) + 1
        totals.append(total)

    summary = train(corpus, tmp_path / "a", 3, count)
    assert (summary.epochs, summary.kept_epoch, summary.stopped_early) == (5, 2, True)
    assert summary.steps == totals[0] // 7 * 5 == len(totals)
    assert summary.validation_loss == LOSSES[:5]

    def note(step: int, total: int) -> None:
        if step == total // 7 * 2:
            raise StopError

    with pytest.raises(StopError):
        train(corpus, tmp_path / "b", 3, note)
    (state,) = (tmp_path / "b.partial").glob("state-*.pt")
    second = torch.load(state, weights_only=True)["model"]
    kept = load_masked_language_model(tmp_path / "a")
    for name, value in kept.model.state_dict().items():
        assert torch.equal(value, second[name])
    assert fingerprint_of(kept.model, kept.tokenizer) == summary.fingerprint


@pytest.mark.usefixtures("made_up")
def test_without_patience_every_epoch_is_run(corpus: Path, tmp_path: Path) -> None:
    summary = train(corpus, tmp_path / "a", 0)
    assert (summary.epochs, summary.kept_epoch, summary.stopped_early) == (7, 7, False)


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("epoch", [1, 2, 3, 5])
def test_a_stopped_run_remembers_the_best_epoch_and_the_patience(
    corpus: Path, tmp_path: Path, epoch: int
) -> None:
    whole = train(corpus, tmp_path / "a", 3)

    def stop(step: int, total: int) -> None:
        if step == total // 7 * epoch:
            raise StopError

    with pytest.raises(StopError):
        train(corpus, tmp_path / "b", 3, stop)
    rest = train(corpus, tmp_path / "b", 3)
    assert rest.resumed_from_step == whole.steps // 5 * epoch
    assert rest.fingerprint == whole.fingerprint
    assert rest.validation_loss == whole.validation_loss
    assert (rest.epochs, rest.kept_epoch, rest.steps) == (5, 2, whole.steps)


def test_stopping_in_the_middle_of_an_epoch_changes_nothing(corpus: Path, tmp_path: Path) -> None:
    whole = train(corpus, tmp_path / "a", 1)

    def stop(step: int, total: int) -> None:
        if step == total // 7 + 1:
            raise StopError

    with pytest.raises(StopError):
        train(corpus, tmp_path / "b", 1, stop)
    rest = train(corpus, tmp_path / "b", 1)
    assert rest.fingerprint == whole.fingerprint
    assert rest.validation_loss == whole.validation_loss
    assert rest.pseudo_perplexity == whole.pseudo_perplexity


def test_the_history_keeps_a_copy_of_the_earliest_best() -> None:
    model = nn.Linear(1, 1)
    history = History()
    assert (history.best_epoch, history.exhausted(1)) == (0, False)
    for number, loss in enumerate([2.0, 1.0, 1.0]):
        nn.init.constant_(model.weight, number)
        history.add(model, loss, 0.0)
    assert float(history.best["weight"]) == 1.0
    assert history.best_epoch == 2
    assert (history.exhausted(0), history.exhausted(1), history.exhausted(2)) == (
        False,
        True,
        False,
    )
