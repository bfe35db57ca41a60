"""Small random text encoders, in folders as transformers writes them."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cxrtext.phantom.studies import draw_studies
from cxrtext.text import save_tokenizer, train_tokenizer

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}


@cache
def report_sentences(studies: int = 120) -> list[str]:
    """Distinct sentences of drawn reports."""
    found: dict[str, None] = {}
    for study in draw_studies(studies, seed=1):
        for _, statements in study.report.sections():
            found |= dict.fromkeys(statement.text for statement in statements)
    return list(found)


def write_bert(
    folder: Path, sentences: Iterable[str], *, head: bool = False, seed: int = 0
) -> Path:
    """A BERT, without a head as BiomedBERT's users save it, or with."""
    from transformers import BertConfig, BertForMaskedLM, BertModel

    tokenizer = train_tokenizer(sentences, 500)
    save_tokenizer(tokenizer, folder)
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **SIZES)
    network = (BertForMaskedLM if head else BertModel)(config)
    network.save_pretrained(folder)
    return folder


def write_pooling(folder: Path, pooling: str) -> None:
    """What sentence-transformers writes into ``1_Pooling``."""
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    modes = {f"pooling_mode_{name}": name.startswith(pooling) for name in names[:3]}
    modes[f"pooling_mode_{names[3]}"] = False
    (folder / "1_Pooling").mkdir(exist_ok=True)
    content = {"word_embedding_dimension": SIZES["hidden_size"], **modes}
    (folder / "1_Pooling/config.json").write_text(json.dumps(content))
