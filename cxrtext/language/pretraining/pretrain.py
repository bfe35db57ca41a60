"""Trains a masked language model on a corpus of reports, or fine-tunes one."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from cxrtext.device import choose_device
from cxrtext.errors import ConfigError
from cxrtext.files import only_one, replacing_folder, write_json
from cxrtext.language.class_probability import WordCounter, Words
from cxrtext.language.corpus import Corpus, read_corpus
from cxrtext.language.pretraining.batches import HeldOutSplit, cut_to_window, hold_out
from cxrtext.language.pretraining.settings import (
    INITIAL_SCALE,
    KIND,
    PretrainSettings,
    Shape,
    check_output,
    shape_of,
)
from cxrtext.language.pretraining.state import PretrainState
from cxrtext.language.pretraining.train import (
    PretrainRun,
    batches_per_epoch,
    pseudo_perplexity,
    train_to_end,
)
from cxrtext.language.scoring.score import SPECIAL, encode_pieces
from cxrtext.models.bert import BertConfig, MaskedBert
from cxrtext.models.masked_lm import (
    MaskedLanguageModel,
    fingerprint_of,
    load_masked_language_model,
    save_masked_language_model,
)
from cxrtext.pausing import Progress
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.text import train_tokenizer
from cxrtext.text.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True)
class PretrainSummary:
    """What a pre-training run did; also the content of ``training.json``."""

    kind: str  # ``KIND``
    fingerprint: str  # SHA-256 of the result's configuration, weights and vocabulary
    base: str | None  # fingerprint of the fine-tuned model, or None
    reports: int
    with_text: int  # reports with at least one sentence
    training_sentences: int  # with repeated ones
    validation_sentences: int  # sentences of the held-out studies
    tokens: int  # word pieces of the training sentences
    vocabulary_size: int  # word pieces in the vocabulary
    parameters: int  # numbers in the network
    steps: int  # optimizer steps
    epochs: int  # passes through the training sentences
    kept_epoch: int  # the epoch with the lowest held-out loss, from 1; its weights are the result
    # Mean cross-entropy of masked word pieces in held-out sentences after each epoch, in nats.
    validation_loss: list[float]
    perplexity: float  # the result's pseudo-perplexity per word piece of held-out sentences
    words: int  # of the training sentences, without punctuation
    unknown_words: int  # those that are not in the vocabulary
    resumed_from_step: int  # steps done before a stopped run was resumed; 0 otherwise
    seconds: float  # wall-clock time of this run

    @property
    def warning(self) -> str | None:
        """A warning that the corpus is foreign to the vocabulary, or None."""
        return Words(self.words, self.unknown_words).warning()


WINDOW = 512  # positions of a new network, with special tokens


def new_model(shape: Shape, tokenizer: TextTokenizer, seed: int) -> MaskedBert:
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
        return MaskedBert(config)


def prepare(
    split: HeldOutSplit,
    settings: PretrainSettings,
    shape: Shape,
    base: MaskedLanguageModel | None,
    state: PretrainState,
    device: torch.device,
) -> PretrainRun:
    """Prepare a run on ``base``, or on a new network; ``state`` keeps the vocabulary."""
    tokenizer = state.tokenizer()
    if tokenizer is None:
        size = shape.vocabulary_size
        tokenizer = base.tokenizer if base else train_tokenizer(split.training, size)
        state.begin(tokenizer)
    model = base.model if base else new_model(shape, tokenizer, settings.seed)
    window = int(model.config.max_position_embeddings) - 2
    training = cut_to_window(encode_pieces(tokenizer, split.training), window)
    nn.Module.to(model, device)
    tokens = sum(len(sentence) + SPECIAL for sentence in training)
    epochs = settings.epochs or max(3, round(settings.tokens / tokens))
    return PretrainRun(
        model,
        tokenizer,
        settings,
        steps=epochs * batches_per_epoch(training, settings.batch_tokens),
        training=training,
        validation=cut_to_window(encode_pieces(tokenizer, split.validation), window),
    )


PERPLEXITY_SENTENCES = 500  # most sentences for measuring the result's perplexity


def _summary(
    run: PretrainRun, base: str | None, corpus: Corpus, split: HeldOutSplit, started: float
) -> PretrainSummary:
    history, counter = run.history, WordCounter(run.tokenizer)
    counts = [counter.count(sentence) for sentence in run.training]
    return PretrainSummary(
        kind=KIND,
        fingerprint=fingerprint_of(run.model, run.tokenizer),
        base=base,
        reports=len(corpus.studies),
        with_text=corpus.with_text,
        training_sentences=len(split.training),
        validation_sentences=len(split.validation),
        tokens=sum(map(len, run.training)),
        vocabulary_size=len(run.tokenizer),
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        steps=run.steps,
        epochs=history.epochs,
        kept_epoch=history.best_epoch,
        validation_loss=[round(loss, 4) for loss in history.validation_loss],
        perplexity=round(pseudo_perplexity(run, split.validation[:PERPLEXITY_SENTENCES]), 3),
        words=sum(words.words for words in counts),
        unknown_words=sum(words.unknown for words in counts),
        resumed_from_step=run.first,
        seconds=round(time.monotonic() - started, 1),
    )


def pretrain_text(
    reports: Path,
    out: Path,
    *,
    base: str | Path | None = None,
    size: str | Shape = "compact",
    epochs: int | None = None,
    seed: int = 0,
    sections: Sequence[str] | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> PretrainSummary:
    """Train a masked language model on a table of reports, or fine-tune one.

    The result has the weights of the epoch with the lowest held-out loss.  Until it is written,
    ``<out>.partial`` keeps the state of the run; after a stop, the same call resumes and gives the
    same model.

    Args:
        out: The folder to write: ``config.json``, ``model.safetensors``, the tokenizer's files
            and ``training.json``.  A model trained there before is replaced.
        base: A hub id or model folder to fine-tune; its vocabulary and size are kept, a projection
            head is left out.
        size: "compact" (3 layers of 192), "demo" (2 layers of 128) or a shape of your own; only
            without ``base``.
        epochs: Passes through the sentences; by default a fixed number of tokens, at least three
            epochs.
        sections: Sections to train on; by default those that describe the image.
        columns: A table's own headers by our names; the others are guessed.
        progress: Called with steps done and their total; may raise to stop the run.

    Source: Devlin et al. 2019, §3.1; Liu et al. 2019 (dynamic masking); Cui et al. 2021
        (whole-word masking).
    """
    started = time.monotonic()
    check_output(out)
    shape = shape_of(size)
    if epochs is not None and epochs < 1:
        raise ConfigError(f"epochs is {epochs}; it must be at least 1")
    with only_one(out):
        corpus = read_corpus(reports, sections, columns)
        split = hold_out(reports, corpus, seed)
        model = None if base is None else load_masked_language_model(base)
        fingerprint = None if model is None else model.fingerprint
        settings = PretrainSettings(fingerprint, None if model else shape, epochs, seed)
        identity = asdict(settings) | {"corpus": split.digest()}
        state = PretrainState(out.with_name(out.name + ".partial"), identity)
        run = prepare(split, settings, shape, model, state, choose_device(device))
        train_to_end(run, state, progress)
        summary = _summary(run, settings.base, corpus, split, started)
        with replacing_folder(out) as folder:
            save_masked_language_model(run.model, run.tokenizer, folder)
            write_json(folder / "training.json", asdict(summary) | {"settings": state.settings})
        state.remove()  # only now: the output is written
        return summary
