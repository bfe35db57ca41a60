import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from cxrtext.text import save_tokenizer, train_tokenizer

WriteModel = Callable[..., Path]

CXR_BERT = {
    "model_type": "cxr-bert",
    "projection_size": 8,
    "auto_map": {"AutoModel": "modeling_cxrbert.CXRBertModel"},
    "architectures": ["CXRBertModel"],
}
"""What CXR-BERT's configuration has beside a BERT's."""


def projection_head(hidden: int) -> dict[str, Tensor]:
    """The tensors that CXR-BERT's file has beside a masked language model's."""
    shapes = {
        "dense_to_hidden.weight": (8, hidden),
        "dense_to_hidden.bias": (8,),
        "LayerNorm.weight": (8,),
        "LayerNorm.bias": (8,),
        "dense_to_output.weight": (8, 8),
        "dense_to_output.bias": (8,),
    }
    return {f"cls_projection_head.{name}": torch.randn(shape) for name, shape in shapes.items()}


@pytest.fixture
def write_cxr_bert() -> WriteModel:
    """Writes a tiny model of CXR-BERT's layout, as the hub has it: the weights as a pickle."""

    def write(folder: Path, seed: int = 0) -> Path:
        folder.mkdir(parents=True)
        tokenizer = train_tokenizer(["The lungs are clear."] * 3, 200)
        save_tokenizer(tokenizer, folder)
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=24,
        )
        torch.manual_seed(seed)
        state = {**BertForMaskedLM(config).state_dict(), **projection_head(16)}
        state["bert.embeddings.position_ids"] = torch.arange(24)[None]
        (folder / "config.json").write_text(json.dumps({**config.to_dict(), **CXR_BERT}))
        torch.save(state, folder / "pytorch_model.bin")
        return folder

    return write
