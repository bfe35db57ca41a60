import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from cxrtext.errors import CheckpointError, ConfigError, DataError, WorkError
from cxrtext.files import only_one
from cxrtext.language import (
    PretrainSummary,
    pretrain_text,
    score_sentences,
)
from cxrtext.language.pretraining import settings as pretrain_settings
from cxrtext.language.pretraining import train as pretrain_run
from cxrtext.language.pretraining.settings import SHAPES
from cxrtext.models.masked_lm import fingerprint_of, load_masked_language_model
from cxrtext.pausing import Progress
from tests.language.conftest import StopError, stop

COMMON = "The lungs are clear."
RARE = "A pneumothorax is seen on the left."
SECRET = "Zebulon Quill was seen here."
SHAPE = replace(SHAPES["demo"], hidden=32, layers=1, vocabulary_size=300, learning_rate=6e-3)
SMALL: dict[str, Any] = {"size": SHAPE, "device": "cpu"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "reports.csv"
    lines = ["study_id,findings,impression"]
    for number in range(120):
        finding = RARE if number % 30 == 7 else COMMON
        more = f" {SECRET}" if number == 5 else ""
        side = ("left", "right")[number % 2]
        lines.append(f"s{number},{finding} Heart size is normal.{more},No effusion on the {side}.")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def learned(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> PretrainSummary:
    out = tmp_path_factory.getbasetemp() / "trained" / "lm"
    return pretrain_text(corpus, out, epochs=30, **SMALL)


@pytest.fixture(scope="module")
def trained(learned: PretrainSummary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "trained" / "lm"


def test_common_sentences_come_out_likelier_than_rare_and_shuffled_ones(trained: Path) -> None:
    shuffled = "clear are. lungs The"
    common, rare, wrong = score_sentences([COMMON, RARE, shuffled], trained, device="cpu")
    assert common > rare
    assert common > wrong + 3
    assert np.exp(common) > 0.05


def test_the_folder_is_a_model_with_its_history(trained: Path, learned: PretrainSummary) -> None:
    text = (trained / "training.json").read_text()
    noted = json.loads(text)
    del noted["settings"]
    assert noted == json.loads(json.dumps(asdict(learned)))
    loaded = load_masked_language_model(trained)
    assert learned.kind == "masked-language-model"
    assert learned.fingerprint == loaded.fingerprint
    assert learned.vocabulary_size == len(loaded.tokenizer) <= 300
    assert learned.reports == learned.with_text == 120
    assert learned.validation_sentences == 6 * 3
    assert learned.training_sentences == 114 * 3 + 1
    assert len(learned.validation_loss) == 30
    assert learned.validation_loss[-1] < 0.5 * learned.validation_loss[0]
    assert 1 < learned.perplexity < 4
    assert learned.unknown_words == 0 < learned.words
    for word in ("zebulon", "was seen here", "lungs"):
        assert word not in text.lower()
    assert not trained.with_name("lm.partial").exists()
    theirs = BertForMaskedLM.from_pretrained(trained, use_safetensors=True, dtype=torch.float32)
    assert theirs.config.num_hidden_layers == 1


@pytest.mark.parametrize("middle", [0, 1], ids=["after an epoch", "in the middle of one"])
def test_a_stopped_run_goes_on_and_ends_in_the_same_model(
    middle: int, corpus: Path, tmp_path: Path
) -> None:
    steps: list[int] = []

    def stop_once(step: int, total: int) -> None:
        steps.append(step)
        if step == total // 4 + middle:
            raise StopError

    whole = pretrain_text(corpus, tmp_path / "a", epochs=4, **SMALL)
    with pytest.raises(StopError):
        pretrain_text(corpus, tmp_path / "b", epochs=4, progress=stop_once, **SMALL)
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "b.partial").is_dir()
    rest = pretrain_text(corpus, tmp_path / "b", epochs=4, progress=stop_once, **SMALL)
    assert steps == list(range(1, whole.steps + 1))
    assert rest.resumed_from_step == whole.steps // 4 + middle
    assert rest.fingerprint == whole.fingerprint
    assert rest.validation_loss == whole.validation_loss
    assert not (tmp_path / "b.partial").exists()


def test_a_damaged_state_is_refused_and_that_of_other_settings_thrown_away(
    corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(StopError):
        pretrain_text(corpus, tmp_path / "m", epochs=2, progress=stop, **SMALL)
    (state,) = (tmp_path / "m.partial").glob("state-*.pt")
    whole = state.read_bytes()
    state.write_bytes(b"PK\x03\x04")
    with pytest.raises(CheckpointError, match="damaged; remove"):
        pretrain_text(corpus, tmp_path / "m", epochs=2, **SMALL)
    state.write_bytes(whole)
    assert pretrain_text(corpus, tmp_path / "m", epochs=1, **SMALL).resumed_from_step == 0


def test_fine_tuning_keeps_the_vocabulary_and_learns(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reports.csv"
    new = "Heart is clear on the left."
    rows = "".join(f"s{number},{new}\n" for number in range(60))
    path.write_text("study_id,report\n" + rows)
    monkeypatch.setattr(pretrain_settings, "FINE_TUNING_RATE", 2e-3)
    summary = pretrain_text(path, tmp_path / "tuned", base=trained, epochs=10, device="cpu")
    before, after = map(load_masked_language_model, (trained, tmp_path / "tuned"))
    assert summary.base == before.fingerprint != after.fingerprint
    assert before.tokenizer.get_vocab() == after.tokenizer.get_vocab()
    assert score_sentences([new], after)[0] > score_sentences([new], before)[0] + 1


def test_a_model_trained_here_is_replaced_and_nothing_else(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "lm"
    out.mkdir()
    pretrain_text(corpus, out, epochs=1, **SMALL)
    pretrain_text(corpus, out, epochs=1, **SMALL)
    (out / "training.json").write_text('{"kind": "image-text"}')
    with pytest.raises(DataError, match="is not a language model that was trained here"):
        pretrain_text(corpus, out, epochs=1, **SMALL)
    (tmp_path / "file").write_text("notes")
    with pytest.raises(DataError, match="is not a language model"):
        pretrain_text(corpus, tmp_path / "file", epochs=1, **SMALL)


def test_wrong_options_are_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="compact, demo"):
        pretrain_text(corpus, tmp_path / "m", size="huge")
    with pytest.raises(ConfigError, match="epochs is 0"):
        pretrain_text(corpus, tmp_path / "m", epochs=0)


def test_one_report_is_too_little_and_a_folder_is_of_one_process(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    path.write_text("study_id,report\ns1,Clear.\ns2,\n")
    with (
        only_one(tmp_path / "m"),
        pytest.raises(WorkError, match="m: another process is making this"),
    ):
        pretrain_text(path, tmp_path / "m", **SMALL)
    assert [one.name for one in tmp_path.iterdir()] == ["reports.csv"]
    with pytest.raises(DataError, match="too little"):
        pretrain_text(path, tmp_path / "m", **SMALL)


LOSSES = [3.0, 2.0, 1.5, 2.0]
"""Made up: the last epoch but one is the best."""


@pytest.fixture
def small_corpus(tmp_path: Path) -> Path:
    path = tmp_path / "reports.csv"
    rows = (f"s{n},The lungs are clear. Heart size is {n % 7} normal.\n" for n in range(40))
    path.write_text("study_id,report\n" + "".join(rows))
    return path


def test_the_best_epoch_is_kept_and_a_stopped_run_remembers_it(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = itertools.cycle(LOSSES)
    monkeypatch.setattr(pretrain_run, "validation_loss", lambda *_: next(losses))

    def train(out: Path, progress: Progress | None = None) -> PretrainSummary:
        small = replace(SHAPE, hidden=16, vocabulary_size=200, batch_tokens=256)
        return pretrain_text(
            small_corpus, out, epochs=4, size=small, device="cpu", progress=progress
        )

    def stop_after_three(step: int, total: int) -> None:
        if step == total // 4 * 3:
            raise StopError

    whole = train(tmp_path / "a")
    assert (whole.epochs, whole.kept_epoch, whole.validation_loss) == (4, 3, LOSSES)
    with pytest.raises(StopError):
        train(tmp_path / "b", stop_after_three)
    (state,) = (tmp_path / "b.partial").glob("state-*.pt")
    third = torch.load(state, weights_only=True)["model"]
    rest = train(tmp_path / "b")
    assert rest.resumed_from_step == whole.steps // 4 * 3
    assert (rest.fingerprint, rest.kept_epoch) == (whole.fingerprint, 3)
    kept = load_masked_language_model(tmp_path / "b")
    for name, value in kept.model.state_dict().items():
        assert torch.equal(value, third[name])
    assert fingerprint_of(kept.model, kept.tokenizer) == whole.fingerprint
