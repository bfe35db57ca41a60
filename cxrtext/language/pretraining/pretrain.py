"""A masked language model from a corpus of reports: trained from nothing, or fine-tuned."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from cxrtext.files import replacing_folder, write_json
from cxrtext.language.corpus import Corpus, read_corpus
from cxrtext.language.pretraining.coverage import measure_coverage
from cxrtext.language.pretraining.data import HeldOutSplit, hold_out
from cxrtext.language.pretraining.fill_mask import fill_masks
from cxrtext.language.pretraining.report import write_report
from cxrtext.language.pretraining.run import PretrainRun, pseudo_perplexity, train_to_end
from cxrtext.language.pretraining.settings import (
    KIND,
    WHOLE_WORD,
    check_masking_and_patience,
    check_numbers,
    check_output,
    choose_settings,
    choose_shape,
)
from cxrtext.language.pretraining.setup import prepare
from cxrtext.language.pretraining.state import PretrainState
from cxrtext.language.pretraining.summary import PretrainSummary
from cxrtext.language.scoring.score import Progress
from cxrtext.language.scoring.scorer import choose_device
from cxrtext.models.masked_language_model import (
    fingerprint_of,
    load_masked_language_model,
    save_masked_language_model,
)

PERPLEXITY_SENTENCES = 500
"""Most sentences that the result's perplexity is measured on."""


def _summary(
    run: PretrainRun, base: str | None, corpus: Corpus, split: HeldOutSplit, started: float
) -> PretrainSummary:
    """Measure the result."""
    history = run.history
    perplexity = pseudo_perplexity(run, split.validation[:PERPLEXITY_SENTENCES])
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
        masking=run.masking,
        steps=run.done,
        epochs=history.epochs,
        kept_epoch=history.best_epoch,
        stopped_early=run.done < run.recipe.steps,
        validation_loss=[round(loss, 4) for loss in history.validation_loss],
        pseudo_perplexity=[round(value, 3) for value in history.pseudo_perplexity],
        perplexity=round(perplexity, 3),
        coverage=measure_coverage(run.tokenizer, run.training),
        held_out_coverage=measure_coverage(run.tokenizer, run.validation),
        fill_mask=fill_masks(run.model, run.tokenizer),
        resumed_from_step=run.first,
        seconds=round(time.monotonic() - started, 1),
    )


def _write(out: Path, run: PretrainRun, summary: PretrainSummary, state: PretrainState) -> None:
    """Write the folder; only then is the state of the run removed."""
    training = asdict(summary) | {"settings": state.settings}
    del training["fill_mask"]
    with replacing_folder(out) as folder:
        save_masked_language_model(run.model, run.tokenizer, folder)
        write_json(folder / "training.json", training)
        write_report(folder, summary)
    state.remove()


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
    masking: str = WHOLE_WORD,
    patience: int = 0,
    seed: int = 0,
    sections: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    offline: bool = False,
    progress: Progress | None = None,
) -> PretrainSummary:
    """Train a masked language model on a table of reports, or fine-tune one.

    The weights of the epoch with the lowest held-out loss are the result.  Until it is written,
    ``<out>.partial`` keeps the state of the run; the same call after a stop goes on from there and
    ends in the same model.

    Args:
        reports: A CSV or Parquet table of reports.
        out: The folder to write: ``config.json``, ``model.safetensors``, the tokenizer's files
            ``training.json``, and the report as ``report.md`` and ``report.json``.  A model that
            was trained here before is replaced.
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
        masking: "whole-word" hides all pieces of a word together, "piece" each for itself.
        patience: Stop after so many epochs without a lower held-out loss.  0, the default, never
            stops: the learning rate falls to nothing over all epochs, and most is gained late.
        seed: Of everything random.
        sections: Sections to train on; by default those that describe the image.
        device: Where to compute; by default the GPU where there is one.
        offline: Never ask the hub for ``base``.
        progress: Called with steps done and in all; may raise to stop the run.

    Returns:
        What was done and measured.

    Raises:
        DataError: The table cannot be read or holds no text, or ``out`` holds something else.
        ConfigError: A number or name is out of range.
        CheckpointError: The base, or the state of a stopped run, cannot be loaded.
        HubError: The base is not here, and the hub cannot be reached.
        WorkError: Training diverged.

    Source: Devlin et al. 2019, §3.1; Liu et al. 2019 (dynamic masking); Cui et al. 2021
        (whole-word masking).
    """
    started = time.monotonic()
    check_output(out)
    shape = choose_shape(
        size, vocabulary_size=vocabulary_size, hidden=hidden, layers=layers, heads=heads
    )
    check_numbers(epochs=epochs, learning_rate=learning_rate, batch_tokens=batch_tokens)
    check_masking_and_patience(masking, patience)
    corpus = read_corpus(reports, sections)
    split = hold_out(reports, corpus, seed)
    model = None if base is None else load_masked_language_model(base, offline=offline)
    settings = choose_settings(
        shape,
        base=None if model is None else model.fingerprint,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_tokens=batch_tokens,
        seed=seed,
        masking=masking,
        patience=patience,
    )
    identity = settings.as_json() | {"corpus": split.digest()}
    state = PretrainState(out.with_name(out.name + ".partial"), identity)
    run = prepare(split, settings, model, state, choose_device(device))
    train_to_end(run, state, progress)
    summary = _summary(run, settings.base, corpus, split, started)
    _write(out, run, summary, state)
    return summary
