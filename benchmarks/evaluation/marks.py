"""What marks are worth: AUC before and after `cxrtext learn`, on films of other patients.

A reader is simulated by a table of labels, with a share of verdicts turned over.  Half of the
patients are marked, and the other half is measured.  Controls: verdicts shuffled among the marks of
a finding; films chosen at random.

    python benchmarks/evaluation/marks.py CHECKPOINT DATA --prompts FILE --out TABLE
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cxrtext.evaluation import read_prompts
from cxrtext.evaluation.classification.head import (
    CHANCE,
    Archived,
    apply_head,
    fit_head,
    gain_of,
    held_out_gains,
    shuffled,
)
from cxrtext.evaluation.intervals.quantiles import quantile
from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.index.features.scoring import mean_region
from cxrtext.index.labels import Labeler
from cxrtext.models import load_model
from cxrtext.models.regions import embed_records
from cxrtext.records import read_manifest
from cxrtext.records.labels import read_labels
from cxrtext.service.marking import choose_next

LEAST = 30  # films with a finding, and without it, below which it is left out
COLUMNS = ("marks", "errors", "chosen", "verdicts", "seeds", "there", "kept", "before", "change",
           "low", "high", "gain", "gain_low", "gain_high")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Films:
    """Scores [F, n], unit means [n, D] and truth [F, n] of films, by their patients."""

    scores: Any
    means: Any
    truth: Any
    patients: list[str]
    findings: list[str]


def see(checkpoint: Path, data: Path, prompts: Path, cache: Path | None) -> Films:
    asked = read_prompts(prompts)
    labels = read_labels(data / "labels.csv", tuple(asked))
    records = [one for one in read_manifest(data / "manifest.csv") if one.study_id in labels]
    if cache is not None and cache.is_file():
        kept = np.load(cache)
        rows, scores, means = kept["rows"], kept["scores"], kept["means"]
    else:
        model = load_model(checkpoint)
        labeler = Labeler(model, asked, {})
        parts: list[tuple[Any, ...]] = []
        with torch.inference_mode():
            for batch in embed_records(model, records):
                regions = batch.regions
                found = labeler.differences(regions).double(), mean_region(regions).double()
                parts.append((batch.rows, found[0].numpy(), found[1].numpy()))
        rows = np.concatenate([one[0] for one in parts])
        scores = np.concatenate([one[1] for one in parts], axis=1)
        means = np.concatenate([one[2] for one in parts])
        if cache is not None:
            np.savez(cache, rows=rows, scores=scores, means=means)
    records = [records[row] for row in rows]
    values = [[labels[one.study_id][name] for one in records] for name in asked]
    truth = np.array([[np.nan if v not in (0, 1) else v for v in row] for row in values])
    enough = [
        min(np.nansum(row), np.nansum(1 - row)) >= LEAST and not np.isnan(row).any()
        for row in truth
    ]
    names = [name for name, one in zip(asked, enough, strict=True) if one]
    patients = [one.patient_id for one in records]
    return Films(scores[enough], means, truth[enough], patients, names)


def simulate(
    films: Films, seed: int, count: int, errors: float, chosen: str, verdicts: str
) -> dict[str, float]:
    """Mark, train, decide and measure, once: the change by training, the gain by what is kept."""
    rng = np.random.default_rng(seed)
    who = np.unique(films.patients)
    measured = np.isin(films.patients, rng.permutation(who)[: len(who) // 2])
    pool, others = np.flatnonzero(~measured), np.flatnonzero(measured)
    means, patients = films.means[pool], [films.patients[row] for row in pool]
    before, after, kept_gains, there = [], [], [], 0.0
    held: list[Any] = []
    for scores, truth in zip(films.scores, films.truth, strict=True):
        own, told = scores[pool], truth[pool]
        told = np.where(rng.random(len(told)) < errors, 1 - told, told)
        rows = list(_marked(own, means, told, count // len(films.findings), chosen, rng))
        said = told[rows] if verdicts == "as read" else rng.permutation(told[rows])
        there += said.sum()
        before.append(area_under_curve(scores[others], truth[others]))
        after.append(before[-1])
        if min(said.sum(), len(said) - said.sum()) < 2:
            continue
        among = Archived.of(own, means)
        marked = [patients[row] for row in rows]
        held.append(held_out_gains(own[rows], means[rows], shuffled(said, seed), marked, among))
        head = fit_head(own[rows], means[rows], said, among)
        after[-1] = area_under_curve(
            apply_head(head, scores[others], films.means[others]), truth[others]
        )
        if held[-1][0].mean() > 0:
            kept_gains.append(after[-1] - before[-1])
    gain, chance = gain_of(np.concatenate(held, axis=1))
    kept = gain > 0 and chance <= CHANCE
    return {
        "there": there, "kept": float(kept), "before": float(np.mean(before)),
        "change": float(np.mean(after) - np.mean(before)),
        "gain": sum(kept_gains) / len(films.findings) if kept else 0.0,
    }  # fmt: skip


def _marked(
    scores: Any, means: Any, told: Any, count: int, chosen: str, rng: np.random.Generator
) -> Iterator[int]:
    if chosen == "random":
        yield from rng.permutation(len(scores))[:count].tolist()
        return
    known: list[int | None] = [None] * len(scores)
    for _ in range(count):
        place = choose_next(scores - np.median(scores), means, known)
        assert place is not None
        known[place] = int(told[place])
        yield place


def row(films: Films, seeds: int, *given: Any) -> dict[str, Any]:
    runs = [simulate(films, seed, *given) for seed in range(seeds)]
    mean = {name: float(np.mean([one[name] for one in runs])) for name in runs[0]}
    ends: dict[str, float] = {}
    for name, before in (("change", ""), ("gain", "gain_")):
        spread = float(np.std([one[name] for one in runs], ddof=1))
        reach = quantile(0.95, seeds - 1) * spread / seeds**0.5
        ends |= {f"{before}low": mean[name] - reach, f"{before}high": mean[name] + reach}
    named = dict(zip(COLUMNS, (*given, seeds), strict=False))
    return named | {name: f"{value:.4f}" for name, value in {**mean, **ends}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="What the model makes of the films, for later.")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    films = see(given.checkpoint, given.data, given.prompts, given.cache)
    print(f"{len(films.patients)} films, {', '.join(films.findings)}")
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for case in (
            (200, 0.05, "active", "as read"), (200, 0.15, "active", "as read"),
            (200, 0.05, "random", "as read"), (200, 0.05, "active", "shuffled"),
            (600, 0.05, "active", "as read"), (600, 0.15, "active", "as read"),
            (600, 0.05, "random", "as read"), (600, 0.05, "active", "shuffled"),
        ):  # fmt: skip
            found = row(films, given.seeds, *case)
            writer.writerow({name: found[name] for name in COLUMNS})
            print(found, flush=True)


if __name__ == "__main__":
    main()
