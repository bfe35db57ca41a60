"""A masked language model from a corpus of reports: trained from nothing, or fine-tuned."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from cxrtext.errors import DataError
from cxrtext.files import replacing_folder, write_json
from cxrtext.language.corpus import Corpus, read_corpus
from cxrtext.language.masked_training import Recipe, batches_per_epoch
from cxrtext.language.pretrain_data import HeldOutSplit, hold_out
from cxrtext.language.pretrain_run import PretrainRun, train_to_end
from cxrtext.language.pretrain_settings import (
    INITIAL_SCALE,
    PretrainSettings,
    Shape,
    check_numbers,
    choose_settings,
    choose_shape,
)
from cxrtext.language.pretrain_state import PretrainState
from cxrtext.language.pretrain_summary import KIND, PretrainSummary
from cxrtext.language.score import (
    Pieces,
    Progress,
    choose_device,
    encode_pieces,
    score_sentences_detailed,
)
from cxrtext.language.training_batches import cut_to_window
from cxrtext.models.masked_language_model import (
    MaskedLanguageModel,
    fingerprint_of,
    load_masked_language_model,
    save_masked_language_model,
)
from cxrtext.text import train_tokenizer

PERPLEXITY_SENTENCES = 500
"""Most sentences that perplexity is measured on."""

WINDOW = 512
"""Positions of a new network, special tokens counted."""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _check_output(out: Path) -> None:
    """Refuse to replace a folder that is not of this function's making."""
    made_here = out.is_dir() and f'"kind": "{KIND}"' in _text(out / "training.json")
    empty = out.is_dir() and not any(out.iterdir())
    if out.exists() and not (made_here or empty):
        raise DataError(
            f"{out}: exists and is no language model that was trained here; name another folder"
        )


def _new_model(shape: Shape, tokenizer: BertTokenizer, seed: int) -> BertForMaskedLM:
    """Build a network with random weights."""
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.hidden,
        max_position_embeddings=WINDOW,
        initializer_range=INITIAL_SCALE,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return BertForMaskedLM(config)


def _steps(pieces: Sequence[Pieces], settings: PretrainSettings) -> tuple[int, int]:
    """Epochs and steps: those wanted, or as many as the tokens ask for and three at least."""
    tokens = sum(len(sentence) + 2 for sentence in pieces)
    epochs = settings.epochs or max(3, round(settings.tokens / tokens))
    return epochs, epochs * batches_per_epoch(pieces, settings.batch_tokens)


def _prepare(
    split: HeldOutSplit,
    settings: PretrainSettings,
    base: MaskedLanguageModel | None,
    state: PretrainState,
    device: torch.device,
) -> PretrainRun:
    """Vocabulary, network and batches of a run."""
    tokenizer = state.tokenizer()
    if tokenizer is None:
        if base is None:
            assert settings.shape is not None  # noqa: S101 - without a base there is a shape
            tokenizer = train_tokenizer(split.training, settings.shape.vocabulary_size)
        else:
            tokenizer = base.tokenizer
        state.begin(tokenizer)
    if base is not None:
        model = base.model
    else:
        assert settings.shape is not None  # noqa: S101
        model = _new_model(settings.shape, tokenizer, settings.seed)
    window = int(model.config.max_position_embeddings) - 2
    training = cut_to_window(encode_pieces(tokenizer, split.training), window)
    recipe = Recipe(
        steps=_steps(training, settings)[1],
        learning_rate=settings.learning_rate,
        warmup=settings.warmup,
        batch_tokens=settings.batch_tokens,
        mask_share=settings.mask_share,
        weight_decay=settings.weight_decay,
        seed=settings.seed,
    )
    validation = cut_to_window(encode_pieces(tokenizer, split.validation), window)
    nn.Module.to(model, device)
    return PretrainRun(model, tokenizer, recipe, training, validation)


def _perplexity(run: PretrainRun, sentences: Sequence[str]) -> float:
    language = MaskedLanguageModel(run.model, run.tokenizer, "", "")
    scores = score_sentences_detailed(sentences[:PERPLEXITY_SENTENCES], language)
    return float(math.exp(-scores.log_likelihood.sum() / scores.n_tokens.sum()))


def _summary(
    run: PretrainRun,
    settings: PretrainSettings,
    corpus: Corpus,
    split: HeldOutSplit,
    started: float,
) -> PretrainSummary:
    return PretrainSummary(
        kind=KIND,
        fingerprint=fingerprint_of(run.model, run.tokenizer),
        base=settings.base,
        reports=len(corpus.studies),
        with_text=corpus.with_text,
        training_sentences=len(split.training),
        validation_sentences=len(split.validation),
        tokens=sum(map(len, run.training)),
        vocabulary_size=len(run.tokenizer),
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        steps=run.recipe.steps,
        epochs=_steps(run.training, settings)[0],
        validation_loss=run.validation_loss,
        perplexity=round(_perplexity(run, split.validation), 3),
        resumed_from_step=run.first,
        seconds=round(time.monotonic() - started, 1),
    )


def pretrain_text(
    reports: Path,
    out: Path,
    *,
    base: str | Path | None = None,
    size: str = "compact",
    vocabulary_size: int | None = None,
    hidden: int | None = None,
    layers: int | None = None,
    heads: int | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    batch_tokens: int | None = None,
    seed: int = 0,
    sections: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> PretrainSummary:
    """Train a masked language model on a table of reports, or fine-tune one.

    Until the model is written, ``<out>.partial`` keeps the state of the run; the same call after
    a stop goes on from there and ends in the same model.

    Args:
        reports: A CSV or Parquet table of reports.
        out: The folder to write: ``config.json``, ``model.safetensors``, the tokenizer's files
            and ``training.json``.  A model that was trained here before is replaced.
        base: A hub id or model folder to fine-tune; its vocabulary and size are kept, a projection
            head is left out.
        size: "compact" (3 layers of 192) or "demo" (2 layers of 128); without ``base`` only.
        vocabulary_size: Most word pieces; default by size.
        hidden: Width; default by size.
        layers: Number of layers; default by size.
        heads: Attention heads; default by size.
        epochs: Passes through the sentences; by default a fixed number of tokens, three epochs at
            least.
        learning_rate: At the peak; default by size, or 5e-5 with ``base``.
        batch_tokens: Most tokens in a batch; default 512, or 2048 with ``base``.
        seed: Of everything random.
        sections: Sections to train on; by default those that describe the image.
        device: Where to compute; by default the GPU where there is one.
        progress: Called with steps done and in all; may raise to stop the run.

    Returns:
        What was done and measured.

    Raises:
        DataError: The table cannot be read or holds no text, or ``out`` holds something else.
        ConfigError: A number or name is out of range.
        CheckpointError: The base, or the state of a stopped run, cannot be loaded.
        HubError: The base is not here, and the hub cannot be reached.
        WorkError: Training diverged.

    Source: Devlin et al. 2019, §3.1; Liu et al. 2019 (dynamic masking).
    """
    started = time.monotonic()
    _check_output(out)
    shape = choose_shape(
        size, vocabulary_size=vocabulary_size, hidden=hidden, layers=layers, heads=heads
    )
    check_numbers(epochs=epochs, learning_rate=learning_rate, batch_tokens=batch_tokens)
    corpus = read_corpus(reports, sections)
    split = hold_out(reports, corpus, seed)
    model = None if base is None else load_masked_language_model(base)
    settings = choose_settings(
        shape,
        base=None if model is None else model.fingerprint,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_tokens=batch_tokens,
        seed=seed,
    )
    identity = settings.as_json() | {"corpus": split.digest()}
    state = PretrainState(out.with_name(out.name + ".partial"), identity)
    run = _prepare(split, settings, model, state, choose_device(device))
    train_to_end(run, state, progress)
    run.model.eval()
    summary = _summary(run, settings, corpus, split, started)
    with replacing_folder(out) as folder:
        save_masked_language_model(run.model, run.tokenizer, folder)
        write_json(folder / "training.json", asdict(summary) | {"settings": identity})
    state.remove()
    return summary
