"""Text encoders with mean pooling, as sentence-transformers has them, on the tiny data set."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cxrtext.config import Config, load_config
from cxrtext.errors import CheckpointError
from cxrtext.evaluation import evaluate
from cxrtext.models import ImageTextModel, load_model
from cxrtext.training import train
from cxrtext.training.data.locked_features import Keeping, lock_sentences
from cxrtext.training.initialization import build_model
from tests.conftest import SENTENCES
from tests.models.text_encoders import report_sentences, write_bert, write_pooling


@pytest.fixture(scope="module")
def folders(once: Callable[[str, Callable[[Path], object]], Path]) -> dict[str, Path]:
    """A tiny encoder without and with a folder that says how it is pooled."""

    def make(folder: Path) -> None:
        for name in ("cls", "mean"):
            write_bert(folder / name, [*SENTENCES.values(), *report_sentences(30)])
        write_pooling(folder / "mean", "mean")

    root = once("text-pooling", make)
    return {name: root / name for name in ("cls", "mean")}


def configured(options: list[str], folder: Path, *more: str) -> Config:
    return load_config(None, [*options, f"model.text={folder}", *more])


def test_a_model_with_mean_pooling_is_trained_evaluated_and_gone_on_with(
    options: list[str], folders: dict[str, Path], data_folder: Path
) -> None:
    run = train(configured(options, folders["mean"], "training.steps=60")).checkpoint
    assert load_model(run).spec.pooling == "mean"
    found = evaluate(run, data_folder)
    assert found.rows.value("retrieval", "sentence to image", "R@1") == 1.0
    start = configured(options, folders["cls"], f"model.init={run}")
    assert build_model(start).spec.pooling == "mean"
    assert build_model(configured(options, folders["cls"])).spec.pooling == "cls"


def test_kept_states_are_pooled_and_kept_apart_by_pooling(
    options: list[str], folders: dict[str, Path], tmp_path: Path
) -> None:
    start = build_model(configured(options, folders["cls"]))
    texts = [*report_sentences(2), "Clear.", "Clear."]
    pooled = []
    for pooling in ("cls", "mean"):
        model = ImageTextModel(replace(start.spec, pooling=pooling), start.tokenizer).eval()
        model.load_state_dict(start.state_dict())
        pieces = model.tokenizer(texts)["input_ids"]
        kept = lock_sentences(model, pieces, Keeping(folder=tmp_path))
        assert len(kept.values) == len(texts) - 1
        tokens = model.tokenize(texts)
        with torch.inference_mode():
            wanted = model.text_encoder.states(tokens["input_ids"], tokens["attention_mask"])
        assert kept.of(range(len(texts))) == pytest.approx(wanted.numpy(), rel=2e-3, abs=2e-3)
        pooled.append(wanted)
    assert len(list(tmp_path.glob("sentences-*.f16"))) == 2
    assert float((pooled[0] - pooled[1]).abs().max()) > 0.05


def test_masking_wants_a_language_models_head(options: list[str], folders: dict[str, Path]) -> None:
    with pytest.raises(CheckpointError, match="without the masked-language-model head"):
        train(configured(options, folders["cls"], "training.mlm_weight=0.1"))
