from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from cxrtext.models.masked_language_model import MaskedLanguageModel, fingerprint_of
from cxrtext.text import train_tokenizer

SENTENCES = [
    "The lungs are clear.",
    "No pneumothorax.",
    "Heart size is normal.",
    "There is a small left pleural effusion.",
    "No pneumothorax or pleural effusion is seen.",
]


@pytest.fixture(scope="session")
def tiny() -> MaskedLanguageModel:
    """Random weights, 24 positions; large enough weights to tell word pieces apart."""
    tokenizer = train_tokenizer(SENTENCES * 3, 400)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=24,
        initializer_range=0.3,
    )
    model = BertForMaskedLM(config).eval()
    return MaskedLanguageModel(model, tokenizer, "tiny", fingerprint_of(model, tokenizer))


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Six reports, two of them without text to score."""
    path = tmp_path / "reports.csv"
    path.write_text(
        "study_id,findings,impression,indication\n"
        "s1,The lungs are clear. No pneumothorax.,No pneumothorax.,Cough.\n"
        's2,"There is a small left pleural effusion, new.",,\n'
        "s3,,,Fever.\n"
        "s4,nan,NaN,nan\n"
        "s5,,1. Heart size is normal. 2. The lungs are clear.,\n"
        "s6,No pneumothorax.,The lungs are clear.,\n"
    )
    return path
