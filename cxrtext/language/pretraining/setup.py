"""What a pre-training run starts with: vocabulary, network and sentences as word pieces."""

from collections.abc import Sequence

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from cxrtext.language.pretraining.data import HeldOutSplit
from cxrtext.language.pretraining.masked_training import Recipe, batches_per_epoch
from cxrtext.language.pretraining.run import PretrainRun
from cxrtext.language.pretraining.settings import INITIAL_SCALE, PretrainSettings, Shape
from cxrtext.language.pretraining.state import PretrainState
from cxrtext.language.pretraining.training_batches import cut_to_window
from cxrtext.language.scoring.score import Pieces, encode_pieces
from cxrtext.models.masked_language_model import MaskedLanguageModel
from cxrtext.text import train_tokenizer

WINDOW = 512
"""Positions of a new network, special tokens counted."""

SAMPLE_COST = 0.1
"""Tokens to score after each epoch, a part of those of the epoch: about a thirtieth of its time,
because a token that is only scored costs a third of one that is trained on."""


def new_model(shape: Shape, tokenizer: BertTokenizer, seed: int) -> BertForMaskedLM:
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


def count_steps(pieces: Sequence[Pieces], settings: PretrainSettings) -> int:
    """Return the steps of the epochs wanted, or of as many as the tokens ask for, at least 3."""
    tokens = sum(len(sentence) + 2 for sentence in pieces)
    epochs = settings.epochs or max(3, round(settings.tokens / tokens))
    return epochs * batches_per_epoch(pieces, settings.batch_tokens)


def perplexity_sample(
    sentences: Sequence[str], pieces: Sequence[Pieces], window: int, budget: float
) -> list[str]:
    """Return the first sentences that can be scored within a budget of tokens, one at least."""
    seen: set[str] = set()
    sample: list[str] = []
    spent = 0
    for sentence, ids in zip(sentences, pieces, strict=True):
        if sentence not in seen:
            # One masked copy a word piece; equal sentences are scored once.
            spent += len(ids) * (min(len(ids), window) + 2)
            if sample and spent > budget:
                break
            seen.add(sentence)
        sample.append(sentence)
    return sample


def prepare(
    split: HeldOutSplit,
    settings: PretrainSettings,
    base: MaskedLanguageModel | None,
    state: PretrainState,
    device: torch.device,
) -> PretrainRun:
    """Prepare a run.

    Args:
        split: The corpus.
        settings: How to train.
        base: The model to fine-tune, or None.
        state: Where the vocabulary is kept, or lies already.
        device: Where to compute.
    """
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
        model = new_model(settings.shape, tokenizer, settings.seed)
    window = int(model.config.max_position_embeddings) - 2
    training = cut_to_window(encode_pieces(tokenizer, split.training), window)
    validation = encode_pieces(tokenizer, split.validation)
    recipe = Recipe(
        steps=count_steps(training, settings),
        learning_rate=settings.learning_rate,
        warmup=settings.warmup,
        batch_tokens=settings.batch_tokens,
        mask_share=settings.mask_share,
        weight_decay=settings.weight_decay,
        seed=settings.seed,
    )
    nn.Module.to(model, device)
    return PretrainRun(
        model,
        tokenizer,
        recipe,
        masking=settings.masking,
        patience=settings.patience,
        training=training,
        validation=cut_to_window(validation, window),
        sample=perplexity_sample(
            split.validation, validation, window, SAMPLE_COST * sum(map(len, training))
        ),
    )
