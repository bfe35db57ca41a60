from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import BertConfig as TheirConfig
from transformers import BertForMaskedLM

from cxrtext.language import ScoreSettings, ScoreSummary, score_reports
from cxrtext.language.scoring.network import MaskedNetwork, SpecialIds, masked_copies
from cxrtext.models.bert import BertConfig, MaskedBert
from cxrtext.models.masked_lm import MaskedLanguageModel, fingerprint_of
from cxrtext.text import train_tokenizer

SENTENCES = [
    "The lungs are clear.",
    "No pneumothorax.",
    "Heart size is normal.",
    "There is a small left pleural effusion.",
    "No pneumothorax or pleural effusion is seen.",
]


class StopError(Exception):
    """Raised by what a run calls, as Ctrl-C would be."""


def stop(*_: object) -> None:
    raise StopError


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
    model = MaskedBert(config).eval()
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


SPECIAL = SpecialIds(begin=2, end=3, mask=4)
"""As ``train_tokenizer`` numbers them."""

PlainCopy = tuple[list[int], int, int]
"""A masked sentence with special tokens, the column asked for, and the piece that stood there."""


def copies_by_loops(sentence: Sequence[int], window: int) -> list[PlainCopy]:
    """The masked copies of one sentence, one word piece after the other."""
    copies = []
    for place, target in enumerate(sentence):
        start = 0
        if len(sentence) > window:
            start = min(max(place - window // 2, 0), len(sentence) - window)
        columns = range(start, min(start + window, len(sentence)))
        pieces = [SPECIAL.mask if column == place else sentence[column] for column in columns]
        copies.append(([SPECIAL.begin, *pieces, SPECIAL.end], place - start + 1, target))
    return copies


@torch.no_grad()
def plain_scores(model: MaskedBert, sentence: Sequence[int], window: int) -> NDArray[np.float64]:
    """Every masked copy through the whole of transformers' network, in float64."""
    exact = BertForMaskedLM(TheirConfig(**asdict(model.config))).double().eval()
    exact.load_state_dict(model.state_dict())
    values = []
    for ids, position, target in copies_by_loops(sentence, window):
        logits = exact(input_ids=torch.tensor([ids])).logits[0, position]
        values.append(float(torch.log_softmax(logits, -1)[target]))
    return np.array(values)


@torch.no_grad()
def random_model(width: int = 32, spread: float = 0.15, **sizes: Any) -> MaskedBert:
    """Every parameter random, so that a bias or a norm's weight that is left out shows."""
    sizes = {"vocab_size": 60, "num_hidden_layers": 2, "num_attention_heads": 4, **sizes}
    sizes |= {"hidden_size": width, "intermediate_size": 3 * width}
    model = MaskedBert(BertConfig(max_position_embeddings=14, **sizes)).eval()
    generator = torch.Generator().manual_seed(0)
    for name, values in model.named_parameters():
        center = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        values.normal_(center, spread, generator=generator)
    return model


WINDOW = 12
"""As long as a model of 14 positions can read."""


def network_scores(network: MaskedNetwork, ids: torch.Tensor) -> NDArray[np.float32]:
    """Of sentences of one length, each word piece's score."""
    copies = masked_copies(ids, range(ids.numel()), WINDOW, SPECIAL)
    values: NDArray[np.float32] = network.log_probabilities(copies, SPECIAL.mask).numpy()
    return values.reshape(ids.shape)


Score = Callable[..., ScoreSummary]


@pytest.fixture
def score(tiny: MaskedLanguageModel, reports: Path, tmp_path: Path) -> Score:
    """Scores the six reports into a file below the test's folder, if nothing else is asked for."""

    def run(out: str | Path = "out.csv", reports: Path = reports, **options: Any) -> ScoreSummary:
        asked: dict[str, Any] = {"model": tiny, "progress": None, **options}
        own = {name: asked.pop(name) for name in ("model", "progress")}
        return score_reports(reports, tmp_path / out, ScoreSettings(**asked), **own)

    return run
