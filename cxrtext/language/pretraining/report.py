"""The report of a pre-training run: ``report.md`` for people, ``report.json`` for programs."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxrtext.files import write_json, write_text
from cxrtext.language.pretraining.coverage import Coverage
from cxrtext.language.pretraining.fill_mask import FillMask
from cxrtext.language.pretraining.summary import PretrainSummary


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


def _coverage_row(name: str, coverage: Coverage) -> str:
    return (
        f"| {name} | {coverage.words:,} | {coverage.pieces_per_word:.3f} | "
        f"{coverage.whole:.2%} | {coverage.unknown:.3%} |"
    )


def _gap_row(filled: FillMask) -> str:
    words = ", ".join(f"{word.word} {word.probability:.3f}" for word in filled.words)
    return f"| {filled.template} | {words} |"


def report_text(summary: PretrainSummary) -> str:
    """Return the report in Markdown."""
    origin = "Fine-tuned" if summary.base else "Trained from nothing"
    early = "stopped early, " if summary.stopped_early else ""
    rows = [
        f"| {entry['epoch']} | {entry['cross_entropy']:.4f} | {entry['masked_perplexity']:.2f} | "
        f"{entry['pseudo_perplexity_of_sample']:.2f} |"
        for entry in report_json(summary)["held_out"]
    ]
    lines = [
        "# A masked language model of radiology reports",
        "",
        f"{origin} on {summary.training_sentences:,} sentences of {summary.with_text:,} reports, "
        f"{summary.validation_sentences:,} sentences held out by study; {summary.masking} masks.",
        "",
        f"- parameters: {summary.parameters:,}; word pieces: {summary.vocabulary_size:,}",
        f"- training: {summary.epochs} epochs, {summary.steps:,} steps, "
        f"{early}kept epoch {summary.kept_epoch}; {summary.seconds:,.1f} s",
        f"- held-out pseudo-perplexity of the kept model: {summary.perplexity:.3f} a word piece",
        f"- fingerprint: `{summary.fingerprint}`",
        "",
        "## Held-out sentences after each epoch",
        "",
        "Cross-entropy in nats and its exponential are of the hidden pieces; pseudo-perplexity, "
        "with one piece hidden at a time, is of a small fixed sample.",
        "",
        "| epoch | masked cross-entropy | masked perplexity | pseudo-perplexity (sample) |",
        "|---:|---:|---:|---:|",
        *rows,
        "",
        "## Vocabulary",
        "",
        "| sentences | words and marks | pieces a word | one piece | [UNK] |",
        "|---|---:|---:|---:|---:|",
        _coverage_row("training", summary.coverage),
        _coverage_row("held out", summary.held_out_coverage),
        *([] if summary.warning is None else ["", f"**Warning:** {summary.warning}."]),
        "",
        "## What it puts into a gap",
        "",
        "| sentence | likeliest words |",
        "|---|---|",
        *map(_gap_row, summary.fill_mask),
        "",
    ]
    return "\n".join(lines)


def write_report(folder: Path, summary: PretrainSummary) -> None:
    """Write ``report.md`` and ``report.json`` into a folder."""
    write_json(folder / "report.json", report_json(summary))
    write_text(folder / "report.md", report_text(summary))
