import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from cxrtext.errors import CheckpointError, ConfigError, DataError, WorkError
from cxrtext.files import only_one
from cxrtext.language import pretrain_text, score_sentences
from cxrtext.language.pretraining.batches import cut_to_window, epoch_batches
from cxrtext.language.pretraining.settings import PretrainSettings
from cxrtext.language.pretraining.train import learning_rate
from cxrtext.models.masked_lm import load_masked_language_model

COMMON = "The lungs are clear."
RARE = "A pneumothorax is seen on the left."
SMALL = {
    "size": "demo",
    "hidden": 32,
    "layers": 1,
    "vocabulary_size": 300,
    "batch_tokens": 512,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "reports.csv"
    lines = ["study_id,findings,impression"]
    for number in range(120):
        finding = RARE if number % 30 == 7 else COMMON
        side = ("left", "right")[number % 2]
        lines.append(f"s{number},{finding} Heart size is normal.,No effusion on the {side}.")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "lm"
    pretrain_text(corpus, out, epochs=40, learning_rate=6e-3, **SMALL)  # type: ignore[arg-type]
    return out


def test_common_sentences_come_out_likelier_than_rare_and_shuffled_ones(trained: Path) -> None:
    shuffled = "clear are. lungs The"
    common, rare, wrong = score_sentences([COMMON, RARE, shuffled], trained, device="cpu")
    assert common > rare
    assert common > wrong + 3
    assert np.exp(common) > 0.05


def test_the_folder_is_a_model_with_its_history(trained: Path) -> None:
    training = json.loads((trained / "training.json").read_text())
    loaded = load_masked_language_model(trained)
    assert training["kind"] == "masked-language-model"
    assert training["fingerprint"] == loaded.fingerprint
    assert training["vocabulary_size"] == len(loaded.tokenizer) <= 300
    assert training["reports"] == training["with_text"] == 120
    assert training["validation_sentences"] == 6 * 3
    assert training["training_sentences"] == 114 * 3
    assert len(training["validation_loss"]) == 40
    assert training["validation_loss"][-1] < 0.5 * training["validation_loss"][0]
    assert 1 < training["perplexity"] < 4
    assert "lungs" not in (trained / "training.json").read_text()
    assert not trained.with_name("lm.partial").exists()
    theirs = BertForMaskedLM.from_pretrained(trained, use_safetensors=True, dtype=torch.float32)
    assert theirs.config.num_hidden_layers == 1


class StopError(Exception):
    pass


def test_a_stopped_run_goes_on_and_ends_in_the_same_model(corpus: Path, tmp_path: Path) -> None:
    steps: list[int] = []

    def stop(step: int, total: int) -> None:
        steps.append(step)
        if step == total // 2:
            raise StopError

    def note(step: int, total: int) -> None:
        steps.append(step)

    whole = pretrain_text(corpus, tmp_path / "a", epochs=4, **SMALL)  # type: ignore[arg-type]
    with pytest.raises(StopError):
        pretrain_text(corpus, tmp_path / "b", epochs=4, progress=stop, **SMALL)  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "b.partial").is_dir()
    rest = pretrain_text(corpus, tmp_path / "b", epochs=4, progress=note, **SMALL)  # type: ignore[arg-type]
    assert steps == list(range(1, whole.steps + 1))
    assert rest.resumed_from_step == whole.steps // 2
    assert rest.fingerprint == whole.fingerprint
    assert not (tmp_path / "b.partial").exists()


def test_the_state_of_other_settings_is_thrown_away(corpus: Path, tmp_path: Path) -> None:
    def stop(step: int, total: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        pretrain_text(corpus, tmp_path / "m", epochs=2, progress=stop, **SMALL)  # type: ignore[arg-type]
    summary = pretrain_text(corpus, tmp_path / "m", epochs=1, **SMALL)  # type: ignore[arg-type]
    assert summary.resumed_from_step == 0


def test_a_damaged_state_is_refused(corpus: Path, tmp_path: Path) -> None:
    def stop(step: int, total: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        pretrain_text(corpus, tmp_path / "m", epochs=2, progress=stop, **SMALL)  # type: ignore[arg-type]
    (state,) = (tmp_path / "m.partial").glob("state-*.pt")
    state.write_bytes(b"PK\x03\x04")
    with pytest.raises(CheckpointError, match="damaged; remove"):
        pretrain_text(corpus, tmp_path / "m", epochs=2, **SMALL)  # type: ignore[arg-type]


def test_fine_tuning_keeps_the_vocabulary_and_learns(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    new = "Heart is clear on the left."
    rows = "".join(f"s{number},{new}\n" for number in range(60))
    path.write_text("study_id,report\n" + rows)
    summary = pretrain_text(
        path, tmp_path / "tuned", base=trained, epochs=10, learning_rate=2e-3, device="cpu"
    )
    before, after = (
        load_masked_language_model(trained),
        load_masked_language_model(tmp_path / "tuned"),
    )
    assert summary.base == before.fingerprint != after.fingerprint
    assert before.tokenizer.get_vocab() == after.tokenizer.get_vocab()
    assert score_sentences([new], after)[0] > score_sentences([new], before)[0] + 1


def test_a_model_trained_here_is_replaced_and_nothing_else(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "lm"
    out.mkdir()
    pretrain_text(corpus, out, epochs=1, **SMALL)  # type: ignore[arg-type]
    pretrain_text(corpus, out, epochs=1, **SMALL)  # type: ignore[arg-type]
    (out / "training.json").write_text('{"kind": "image-text"}')
    with pytest.raises(DataError, match="is no language model that was trained here"):
        pretrain_text(corpus, out, epochs=1, **SMALL)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("notes")
    with pytest.raises(DataError, match="is no language model"):
        pretrain_text(corpus, tmp_path / "file", epochs=1, **SMALL)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "huge"}, "compact, demo"),
        ({"hidden": 33}, "multiple"),
        ({"layers": 0}, "layers is 0"),
        ({"vocabulary_size": 10}, "vocabulary_size is 10"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": -1.0}, "learning_rate is -1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"patience": -1}, "patience is -1"),
    ],
)
def test_wrong_options_are_refused(
    corpus: Path, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        pretrain_text(corpus, tmp_path / "m", **{**SMALL, **options})  # type: ignore[arg-type]


def test_one_report_is_too_little(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    path.write_text("study_id,report\ns1,Clear.\ns2,\n")
    with pytest.raises(DataError, match="too little"):
        pretrain_text(path, tmp_path / "m", **SMALL)  # type: ignore[arg-type]


def test_an_epoch_has_every_sentence_once_within_the_budget() -> None:
    lengths = [3, 9, 4, 4, 3, 12, 40] * 5
    epochs = [epoch_batches(lengths, 44, torch.Generator().manual_seed(s)) for s in (0, 1)]
    for batches in epochs:
        assert sorted(i for batch in batches for i in batch) == list(range(35))
        assert max(len(b) * (max(lengths[i] for i in b) + 2) for b in batches) <= 44
    assert len(epochs[0]) == len(epochs[1])
    assert epochs[0] != epochs[1]


def test_long_sentences_are_cut_and_not_cut_off() -> None:
    assert cut_to_window([(1, 2, 3, 4, 5), (6,)], 2) == [(1, 2), (3, 4), (5,), (6,)]


def test_the_learning_rate_rises_and_falls() -> None:
    settings = PretrainSettings(None, None, None, 1.0, 1, 0, warmup=0.1)
    rates = [learning_rate(step, 100, settings) for step in range(100)]
    assert rates[9] == rates[10] == 1.0
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[99] < 0.001
    assert rates[55] == pytest.approx(0.5)


def test_a_model_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    reports, out = tmp_path / "reports.csv", tmp_path / "model"
    reports.write_text("study_id,report\ns1,The lungs are clear.\ns2,No pneumothorax.\n")
    with only_one(out), pytest.raises(WorkError, match="model: another process is making this"):
        pretrain_text(reports, out, size="demo")
    assert [path.name for path in tmp_path.iterdir()] == ["reports.csv"]
