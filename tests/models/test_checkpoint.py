import json
import shutil
from pathlib import Path

import pytest
import torch

from cxrtext.errors import CheckpointError
from cxrtext.files import write_sums
from cxrtext.models import ImageTextModel, load_model, save_checkpoint
from tests.conftest import SENTENCES
from tests.models.conftest import Change, configured, tensors


@pytest.fixture
def copy(checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint, tmp_path / "copy"))


def test_a_saved_model_comes_back_the_same(checkpoint: Path, tmp_path: Path) -> None:
    model = load_model(checkpoint)  # one of its own, for saving notes a fingerprint
    save_checkpoint(tmp_path / "again", model, {"step": 1})
    again = load_model(tmp_path / "again")
    assert again.fingerprint == model.fingerprint
    assert not again.training
    images = torch.rand(2, 1, 64, 64)
    with torch.inference_mode():
        assert torch.equal(model.embed_images(images), again.embed_images(images))
    sentences = ["Left pleural effusion.", "The lungs are clear."]
    assert torch.equal(model.embed_sentences(sentences), again.embed_sentences(sentences))


def test_sentence_embeddings_do_not_depend_on_the_company(model: ImageTextModel) -> None:
    sentences = [*SENTENCES.values(), "Effusion, pneumothorax, and so."]
    together = model.embed_sentences(sentences)
    alone = torch.cat([model.embed_sentences([s]) for s in sentences])
    assert torch.allclose(together, alone, atol=1e-5)
    assert torch.allclose(together.norm(dim=1), torch.ones(4))


BIAS = "text_encoder.projection.bias"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (tensors(lambda s: s.pop(BIAS)), f"missing: '{BIAS}'"),
        (
            tensors(lambda s: s.update(surplus=torch.zeros(1), surplus2=torch.zeros(1))),
            "unexpected: 'surplus', 'surplus2'",
        ),
        (tensors(lambda s: s.update({BIAS: torch.zeros(3)})), r"has shape \[3\], not \[16\]"),
        (configured(position=...), "key 'position' is missing"),
        (configured(format="other"), "not a cxrtext checkpoint"),
        (configured(version=99), "another version of cxrtext .format 99"),
        (configured(aggregator="mean"), "no similarity 'mean'"),
        (configured(preprocessing={"resize": 10}), "preprocessing has no 'crop'"),
    ],
)
def test_what_does_not_fit_is_refused(change: Change, says: str, copy: Path) -> None:
    change(copy)
    write_sums(copy)
    with pytest.raises(CheckpointError, match=says):
        load_model(copy)


def test_missing_tokenizer_files(copy: Path) -> None:
    for name in ("tokenizer.json", "vocab.txt"):
        (copy / name).unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match=r"tokenizer.json: is missing; copy the checkpoint"):
        load_model(copy)
    write_sums(copy)
    with pytest.raises(CheckpointError, match="vocab"):
        load_model(copy)


def test_every_file_is_there_and_has_its_digest(copy: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (copy / name).rename(copy.parent / name)
        with pytest.raises(CheckpointError, match=name):
            load_model(copy)
        (copy.parent / name).rename(copy / name)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "training.json"):
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content + b" ")
        with pytest.raises(CheckpointError, match=f"{name}: is not what SHA256SUMS lists"):
            load_model(copy)
        (copy / name).write_bytes(content)
    load_model(copy)
    (copy / "SHA256SUMS").unlink()
    with pytest.raises(CheckpointError, match=r"config.json: has no digest in SHA256SUMS"):
        load_model(copy)


def test_a_configuration_cannot_name_code(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    hostile = {"auto_map": {"AutoModel": "evil.Model"}, "_attn_implementation": "evil/kernels"}
    configured(**hostile, text={**config["text"], **hostile})(copy)
    write_sums(copy)
    assert not {"auto_map", "_attn_implementation"} & set(load_model(copy).spec.text)
