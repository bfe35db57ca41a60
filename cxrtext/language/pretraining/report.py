"""What a run of pre-training measured: ``report.md`` for people, ``report.json`` for programs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import BertForMaskedLM, BertTokenizer

from cxrtext.files import write_json, write_text
from cxrtext.language.class_probability import Words
from cxrtext.language.pretraining.batches import collate, special_ids
from cxrtext.language.scoring.score import Pieces
from cxrtext.text.tokenizer import continues_word, vocabulary_of


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the words of some sentences fall into pieces; a punctuation mark counts as a word."""

    words: int  # number of words, repeated ones counted
    pieces_per_word: float  # mean number of pieces a word
    whole: float  # share of the words that are one piece and not [UNK]
    unknown: float  # share of the words that are [UNK]


def measure_coverage(tokenizer: BertTokenizer, sentences: Sequence[Pieces]) -> Coverage:
    """Count words and their pieces; all 0 where there is no word."""
    continues = continues_word(tokenizer)
    words = pieces = split = unknown = 0
    for sentence in sentences:
        pieces += len(sentence)
        inside = False
        for place, piece in enumerate(sentence):
            if place and continues[piece]:
                split += not inside
                inside = True
            else:
                words += 1
                unknown += piece == tokenizer.unk_token_id
                inside = False
    if not words:
        return Coverage(0, 0.0, 0.0, 0.0)
    return Coverage(
        words,
        round(pieces / words, 4),
        round((words - split - unknown) / words, 4),
        round(unknown / words, 6),
    )


TEMPLATES = (
    "the lungs are [MASK] .",
    "no pleural [MASK] or pneumothorax .",
    "the heart size is [MASK] .",
    "there is a small left pleural [MASK] .",
    "no focal [MASK] is seen .",
    "right lower lobe [MASK] .",
    "mild pulmonary [MASK] .",
    "the cardiac silhouette is [MASK] .",
)
"""Sentences with one gap each, this project's own; the answers are single words of the vocabulary,
so that a report of them reveals nothing that the vocabulary does not."""

WORDS = 5  # words shown for each


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and its probability among all word pieces."""

    word: str
    probability: float


@dataclass(frozen=True, slots=True)
class FillMask:
    """A sentence with a gap, and the likeliest words in it, best first."""

    template: str
    words: list[Word]


def _is_word(piece: str) -> bool:
    return piece[0].isalnum()  # neither a continuation, a punctuation mark nor a special token


@torch.inference_mode()
def fill_masks(
    model: BertForMaskedLM, tokenizer: BertTokenizer, templates: tuple[str, ...] = TEMPLATES
) -> list[FillMask]:
    """Fill the gap of each template, a sentence with one [MASK], with the likeliest whole words.

    The network is in evaluation mode.  Pieces that continue a word are left out, and so are
    templates longer than the network's window.
    """
    vocabulary = vocabulary_of(tokenizer)
    candidates = torch.tensor([i for i, piece in enumerate(vocabulary) if _is_word(piece)])
    special = special_ids(tokenizer)
    window = int(model.config.max_position_embeddings) - 2
    filled: list[FillMask] = []
    for template in templates:
        pieces = tuple(tokenizer.encode(template, add_special_tokens=False))
        if len(pieces) > window:
            continue
        ids, _, _ = collate([pieces], special)
        place = pieces.index(special.mask) + 1
        states = model.bert(input_ids=ids.to(model.device)).last_hidden_state[:, place]
        shares = torch.softmax(model.cls(states)[0].float(), dim=-1).cpu()[candidates]
        best = shares.topk(min(WORDS, len(candidates)))
        words = [
            Word(vocabulary[int(candidates[index])], round(float(share), 4))
            for share, index in zip(best.values, best.indices, strict=True)
        ]
        filled.append(FillMask(template, words))
    return filled


@dataclass(frozen=True, slots=True)
class PretrainSummary:
    """What a run of pre-training did; also in ``training.json``, but for ``fill_mask``."""

    kind: str  # ``KIND``
    fingerprint: str  # SHA-256 of the result's configuration, weights and vocabulary
    base: str | None  # fingerprint of the model that was fine-tuned, or None
    reports: int  # number of reports
    with_text: int  # reports with at least one sentence
    training_sentences: int  # sentences trained on, repeated ones counted
    validation_sentences: int  # sentences of the studies held out
    tokens: int  # word pieces of the training sentences
    vocabulary_size: int  # word pieces in the vocabulary
    parameters: int  # numbers in the network
    masking: str  # "whole-word" or "piece"
    steps: int  # optimizer steps
    epochs: int  # passes through the training sentences
    kept_epoch: int  # the epoch of the lowest held-out loss, from 1; its weights are the result
    stopped_early: bool  # whether patience ended the training
    # Mean cross-entropy of masked word pieces of held-out sentences after each epoch, in
    # nats.
    validation_loss: list[float]
    # pseudo-perplexity, a word piece, of a small sample of held-out sentences after each
    # epoch.
    pseudo_perplexity: list[float]
    perplexity: float  # pseudo-perplexity of held-out sentences, a word piece, of the result
    coverage: Coverage  # how the training sentences' words fall into pieces
    held_out_coverage: Coverage  # the same of the sentences held out
    fill_mask: list[FillMask]  # what the result puts into the gaps of a few sentences of our own
    resumed_from_step: int  # steps that a run that was stopped had done; 0 otherwise
    seconds: float  # wall-clock time of this run

    @property
    def warning(self) -> str | None:
        """A line that says that the corpus is foreign to the vocabulary, or None."""
        words = self.coverage.words
        return Words(words, round(words * self.coverage.unknown)).warning()


REPORT = """\
# A masked language model of radiology reports

{origin} on {training_sentences:,} sentences of {with_text:,} reports, \
{validation_sentences:,} sentences held out by study; {masking} masks.

- parameters: {parameters:,}; word pieces: {vocabulary_size:,}
- training: {epochs} epochs, {steps:,} steps, {early}kept epoch {kept_epoch}; {seconds:,.1f} s
- held-out pseudo-perplexity of the kept model: {perplexity:.3f} a word piece
- fingerprint: `{fingerprint}`

## Held-out sentences after each epoch

Cross-entropy in nats and its exponential are of the masked pieces; pseudo-perplexity, \
with one piece masked at a time, is of a small fixed sample.

| epoch | masked cross-entropy | masked perplexity | pseudo-perplexity (sample) |
|---:|---:|---:|---:|
{epoch_rows}

## Vocabulary

| sentences | words and marks | pieces a word | one piece | [UNK] |
|---|---:|---:|---:|---:|
{coverage_rows}

## What it puts into a gap

| sentence | likeliest words |
|---|---|
{gap_rows}
"""


def report_json(summary: PretrainSummary) -> dict[str, Any]:
    """Return what was learned, with one entry an epoch."""
    epochs = [
        {
            "epoch": number,
            "cross_entropy": loss,
            "masked_perplexity": round(math.exp(min(loss, 700.0)), 3),
            "pseudo_perplexity_of_sample": perplexity,
        }
        for number, (loss, perplexity) in enumerate(
            zip(summary.validation_loss, summary.pseudo_perplexity, strict=True), start=1
        )
    ]
    wanted = (
        *("fingerprint", "base", "masking", "parameters", "vocabulary_size", "steps", "epochs"),
        *("kept_epoch", "stopped_early", "perplexity", "seconds"),
        *("coverage", "held_out_coverage", "fill_mask"),
    )
    values = asdict(summary)
    return {name: values[name] for name in wanted} | {"held_out": epochs}


def report_text(summary: PretrainSummary) -> str:
    """Return the report in Markdown."""
    epochs = [
        f"| {entry['epoch']} | {entry['cross_entropy']:.4f} | {entry['masked_perplexity']:.2f} | "
        f"{entry['pseudo_perplexity_of_sample']:.2f} |"
        for entry in report_json(summary)["held_out"]
    ]
    coverage = [
        f"| {name} | {found.words:,} | {found.pieces_per_word:.3f} | {found.whole:.2%} | "
        f"{found.unknown:.3%} |"
        for name, found in (("training", summary.coverage), ("held out", summary.held_out_coverage))
    ]
    if summary.warning is not None:
        coverage += ["", f"**Warning:** {summary.warning}."]
    gaps = []
    for gap in summary.fill_mask:
        words = ", ".join(f"{word.word} {word.probability:.3f}" for word in gap.words)
        gaps.append(f"| {gap.template} | {words} |")
    values = {name: getattr(summary, name) for name in PretrainSummary.__slots__} | {
        "origin": "Fine-tuned" if summary.base else "Trained from nothing",
        "early": "stopped early, " if summary.stopped_early else "",
        "epoch_rows": "\n".join(epochs),
        "coverage_rows": "\n".join(coverage),
        "gap_rows": "\n".join(gaps),
    }
    return REPORT.format(**values)


def write_report(folder: Path, summary: PretrainSummary) -> None:
    """Write ``report.md`` and ``report.json`` into a folder."""
    write_json(folder / "report.json", report_json(summary))
    write_text(folder / "report.md", report_text(summary))
