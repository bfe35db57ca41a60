import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cxrtext.models.cxr_bert import CxrBertConfig, CxrBertModel
from cxrtext.text import save_tokenizer, train_tokenizer

WriteModel = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Copies of pickles and records of revisions do not go into the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def write_cxr_bert() -> WriteModel:
    """Writes a tiny model of CXR-BERT's layout, as the hub has it: the weights as a pickle."""

    def write(folder: Path, seed: int = 0) -> Path:
        folder.mkdir(parents=True)
        tokenizer = train_tokenizer(["The lungs are clear."] * 3, 200)
        save_tokenizer(tokenizer, folder)
        config = CxrBertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=24,
            projection_size=8,
        )
        torch.manual_seed(seed)
        state = dict(CxrBertModel(config).state_dict())
        state["bert.embeddings.position_ids"] = torch.arange(24)[None]
        (folder / "config.json").write_text(json.dumps(config.to_dict()))
        torch.save(state, folder / "pytorch_model.bin")
        return folder

    return write
