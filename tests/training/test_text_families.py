"""A RoBERTa and an MPNet as text encoders, from training to a server, on the tiny data set."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cxrtext.config import Config, load_config
from cxrtext.errors import CheckpointError, ConfigError
from cxrtext.evaluation import evaluate
from cxrtext.files import write_sums
from cxrtext.index import build_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import checkpoint_fingerprint
from cxrtext.models.text_encoder import longest_input
from cxrtext.service import load_service
from cxrtext.training import train
from cxrtext.training.data.locked_features import Keeping, lock_sentences
from cxrtext.training.initialization import build_model
from cxrtext_api.settings import Settings
from tests.api.conftest import serving
from tests.conftest import SENTENCES
from tests.models.text_families import report_sentences, write_bert, write_mpnet, write_roberta

FAMILIES = ("roberta", "mpnet")
POOLED = {"roberta": "cls", "mpnet": "mean"}


@pytest.fixture(scope="module")
def folders(once: Callable[[str, Callable[[Path], object]], Path]) -> dict[str, Path]:
    """Tiny encoders, the MPNet as sentence-transformers has it, with mean pooling."""

    def make(folder: Path) -> None:
        sentences = [*SENTENCES.values(), *report_sentences(30)]
        write_roberta(folder / "roberta", sentences)
        write_mpnet(folder / "mpnet", sentences)
        write_bert(folder / "bert", sentences)

    root = once("text-families", make)
    return {name: root / name for name in (*FAMILIES, "bert")}


SHORT = ("training.steps=6", "training.validate_every=3", "training.save_every=3")


def configured(options: list[str], folder: Path, *more: str) -> Config:
    return load_config(None, [*options, f"model.text={folder}", *SHORT, *more])


@pytest.fixture(scope="module")
def runs(
    options_into: Callable[[Path], list[str]],
    folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    return {
        name: train(
            configured(options_into(root / name), folders[name], "training.checkpointing=true")
        ).checkpoint
        for name in FAMILIES
    }


@pytest.mark.parametrize("family", ["mpnet", pytest.param("roberta", marks=pytest.mark.slow)])
def test_a_model_of_each_family_is_evaluated_indexed_searched_and_served(
    family: str, options: list[str], folders: dict[str, Path], data_folder: Path, tmp_path: Path
) -> None:
    run = train(configured(options, folders[family], "training.steps=60")).checkpoint
    model = load_model(run)
    assert (model.spec.text["model_type"], model.spec.pooling) == (family, POOLED[family])
    found = evaluate(run, data_folder)
    assert found.rows.value("retrieval", "sentence to image", "R@1") == 1.0
    build_index(data_folder / "manifest.csv", run, tmp_path / "index")
    service = load_service(run, tmp_path / "index")
    assert service.describe()["text_encoder_layers"] == 2
    assert service.texts.turn > 0
    with serving(service, Settings()) as client:
        asked = client.post("/v1/search", data={"query": SENTENCES["effusion"], "k": 3})
    numbers = [int(Path(hit["image_id"]).stem[1:]) for hit in asked.json()["images"]]
    assert [number % 3 for number in numbers] == [1, 1, 1]  # of the kind that the sentence is of


@pytest.mark.parametrize("family", [*FAMILIES, "bert"])
def test_kept_states_are_pooled_and_kept_apart_by_pooling(
    family: str, options: list[str], folders: dict[str, Path], tmp_path: Path
) -> None:
    config = configured(options, folders[family])
    texts = [*report_sentences(2), "Clear.", "Clear."]
    pooled = []
    for pooling in ("cls", "mean"):
        start = build_model(config)
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


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_keeps_its_tokenizer(
    family: str, runs: dict[str, Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(runs[family], tmp_path / "copy"))
    model = load_model(copy)
    assert model.fingerprint == checkpoint_fingerprint(copy)
    assert model.spec.max_tokens <= longest_input(model.spec.text) == 64
    tokens = model.tokenize(["pneumothorax " * 300])["input_ids"]
    assert tokens.shape == (1, 64)
    assert model.embed_sentences(["pneumothorax " * 300]).isfinite().all()
    content = (copy / "tokenizer.json").read_text("utf-8")
    (copy / "tokenizer.json").write_text(content.replace("<mask>", "<musk>"), "utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: is not what SHA256SUMS lists"):
        load_model(copy)
    write_sums(copy)
    assert checkpoint_fingerprint(copy) != model.fingerprint
    with pytest.raises(CheckpointError, match="lacks <mask>"):
        load_model(copy)


def test_what_does_not_go_together_is_refused(
    options: list[str], folders: dict[str, Path], runs: dict[str, Path]
) -> None:
    for family, more, message in (
        ("mpnet", "model.pooling=cls", "pools its states by mean, and model.pooling is cls"),
        ("roberta", "training.mlm_weight=0.1", "a BERT, and model.text is a roberta; set"),
        ("bert", f"model.init={runs['mpnet']}", "has pooling mean, and model.pooling is cls"),
    ):
        pooling = ["model.pooling=cls"] if family == "bert" else []
        with pytest.raises(ConfigError, match=message):
            build_model(configured(options, folders[family], more, *pooling))
    with pytest.raises(CheckpointError, match="without the masked-language-model head"):
        train(configured(options, folders["bert"], "training.mlm_weight=0.1"))
    assert build_model(configured(options, folders["bert"])).spec.pooling == "cls"
    start = configured(options, folders["bert"], f"model.init={runs['mpnet']}")
    assert build_model(start).spec.pooling == "mean"
