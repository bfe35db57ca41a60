import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import BertForMaskedLM

from tests.models.text_encoders import report_sentences, write_bert

Change = Callable[[Path], object]
"""Changes a model's folder."""
LANGUAGE_MODEL = "language model"


def configured(**values: Any) -> Change:
    """Sets keys of a folder's ``config.json``; ``...`` takes one away."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        keys = json.loads(path.read_text()) | values
        path.write_text(json.dumps({key: x for key, x in keys.items() if x is not ...}))

    return change


def tensors(change: Callable[[dict[str, Tensor]], object]) -> Change:
    def write(folder: Path) -> None:
        state = load_file(folder / "model.safetensors")
        change(state)
        save_file(state, folder / "model.safetensors")

    return write


def pickled(folder: Path) -> Path:
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    return folder


@pytest.fixture(scope="session")
def text_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An encoder without a head, and a masked language model."""
    root, sentences = tmp_path_factory.mktemp("encoders"), report_sentences(30)
    return {
        "bert": write_bert(root / "bert", sentences),
        LANGUAGE_MODEL: write_bert(root / "lm", sentences, head=True),
    }


@pytest.fixture
def copied(text_folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """Copies the folder of the encoder, or of the language model, to be changed."""
    return lambda kind: Path(shutil.copytree(text_folders[kind], tmp_path / "m"))


def write_cxr_bert(folder: Path, seed: int = 0) -> Path:
    """A tiny model of CXR-BERT's layout, as the hub has it: the weights as a pickle."""
    write_bert(folder, ["The lungs are clear."] * 3, head=True, seed=seed)
    state = BertForMaskedLM.from_pretrained(folder).state_dict()
    state["bert.embeddings.position_ids"] = torch.arange(64)[None]
    layers = nn.Linear(32, 8), nn.LayerNorm(8), nn.Linear(8, 8)
    names = "dense_to_hidden", "LayerNorm", "dense_to_output"
    head = nn.ModuleDict(dict(zip(names, layers, strict=True)))
    state |= head.state_dict(prefix="cls_projection_head.")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    own = {"architectures": ["CXRBertModel"], "auto_map": {"AutoModel": "cxrbert.CXRBertModel"}}
    configured(model_type="cxr-bert", projection_size=8, **own)(folder)
    return folder
