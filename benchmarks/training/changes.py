"""Improved, unchanged and worse on drawn follow-ups, by two films.

The head of `learn-changes` beside the difference of the films' zero-shot scores, which knows no
pairs, and a head that joins the regions of both before they are scored; as a control the prior is
another patient's.  One index a seed, of the same images by single-film models of several seeds,
drawn by `cxrtext phantom --follow-ups`.  AUCs are means over the five CheX5
findings and the seeds, on pairs of the split test; intervals resample patients.
"""

import argparse
import csv
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from cxrtext.evaluation import prompt_embeddings, score_differences
from cxrtext.evaluation.changes import (
    BATCH,
    DECAY,
    KIND,
    KINDS,
    RATE,
    STEPS,
    ChangesSaid,
    fit_changes,
)
from cxrtext.evaluation.classification.calibration import prompts_beside
from cxrtext.evaluation.intervals.bootstrap import Resampled, draw
from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.index import open_index
from cxrtext.index.order import study_pairs
from cxrtext.index.pairs import regions_of, said_of
from cxrtext.models.changes import WIDTH, finding_vectors
from cxrtext.models.similarity import build_query, similarity
from cxrtext.records import CHEX5
from cxrtext.records.tables import read_table

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
RESAMPLES = 300
ENDS = ("present", "prior")
GROUPS = {
    "all": ("new", "worse", "unchanged", "improved", "resolved"),
    "on both films": ("worse", "unchanged", "improved"),
}
HEAD, DIFFERENCE, FUSED = "learn-changes", "difference of zero-shot scores", "regions fused first"
PERMUTED = "learn-changes, priors of other patients"


class Fused(nn.Module):
    """Regions of present, prior and their difference through one map, three vectors a finding."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3 * dimension, WIDTH), nn.Linear(WIDTH, dimension)
        self.kinds = nn.Parameter(torch.randn(3, dimension, dimension) / math.sqrt(dimension))
        self.query = build_query("linear", dimension)
        self.log_gamma_sq = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, prior: Tensor, present: Tensor, vectors: Tensor) -> Tensor:
        """Logits [F, 3, B]."""
        joined = torch.cat([present, prior, present - prior], dim=-1)
        hidden = F.gelu(self.first(joined * math.sqrt(present.shape[-1]) / 2))
        mapped = F.normalize(self.second(F.dropout(hidden, 0.3, self.training)), dim=-1)
        texts = F.normalize(torch.einsum("fd,kde->fke", vectors, self.kinds), dim=-1)
        found = similarity("lse+nl", mapped, texts.flatten(0, 1), 10.0, self.query)
        return self.log_gamma_sq.exp() * found.view(len(vectors), 3, -1)


def fit_fused(
    said: ChangesSaid, regions: Callable[[Numbers], Tensor], vectors: Tensor, seed: int
) -> Fused:
    draws = np.random.default_rng(seed)
    torch.manual_seed(seed)
    head = Fused(vectors.shape[1])
    optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        rows = draws.choice(len(said), BATCH, replace=False)
        prior, present = regions(said.prior[rows]), regions(said.present[rows])
        both = torch.cat([prior, present]), torch.cat([present, prior])
        finding = torch.from_numpy(np.tile(said.finding[rows], 2))
        logits = head(*both, vectors)[finding, :, torch.arange(2 * len(rows))]
        kind = torch.from_numpy(said.kind[rows])
        loss = F.cross_entropy(logits, torch.cat([kind, 2 - kind]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return head.eval()


def other_patients(patients: list[str], seed: int) -> Numbers:
    """A pair of another patient for each pair."""
    generator, names = np.random.default_rng(seed), np.asarray(patients)
    order = generator.permutation(len(names))
    while (same := names[order] == names).any():
        order[same] = generator.integers(len(names), size=int(same.sum()))
    return order


@dataclass(frozen=True)
class Measured:
    scores: dict[str, Floats]  # by model, [findings, kinds, pairs]
    patients: list[str]
    found: list[dict[str, str]]  # what is true of each pair, by finding


def measured(index: Path, truth: Mapping[tuple[str, str], dict[str, str]], seed: int) -> Measured:
    """Train on the training pairs, and score the test pairs."""
    archive = open_index([index], None)
    part, model = archive.parts[0], archive.model
    prompts = {name: prompts_beside(model)[name] for name in CHEX5}
    pairs = study_pairs([part])[0]
    train = [one for one in pairs if one.present.split == "train"]
    test = [one for one in pairs if one.present.split == "test"]
    patients = [one.present.patient_id for one in test]
    said, _ = said_of(part, train, list(prompts))
    regions, embedded = regions_of(part), prompt_embeddings(model, prompts).clone()
    vectors = finding_vectors(embedded)
    started = time.process_time()
    head = fit_changes(model, said, regions, vectors, seed=seed)
    print(
        f"{index}: {len(said)} findings said of {len(train)} pairs, {len(test)} test pairs; "
        f"trained in {time.process_time() - started:.1f} s of CPU"
    )
    fused = fit_fused(said, regions, vectors, seed)

    def of_films(films: Numbers, score: Callable[[Tensor], Tensor]) -> Tensor:
        return torch.cat([score(regions(some)) for some in np.array_split(films, 8)], dim=1)

    def difference(before: Numbers, score: Callable[[Tensor], Tensor]) -> Tensor:
        return of_films(present, score) - of_films(before, score)

    present, prior = (np.array([getattr(one, end).number for one in test]) for end in ENDS)
    exchanged = prior[other_patients(patients, seed)]
    with torch.inference_mode():
        plain = difference(prior, lambda r: score_differences(model, r, embedded))
        learned, control = (
            head.probabilities(difference(before, lambda r: head.scores(r, vectors)))
            for before in (prior, exchanged)
        )
        parts = zip(np.array_split(prior, 8), np.array_split(present, 8), strict=True)
        logits = torch.cat([fused(regions(a), regions(b), vectors) for a, b in parts], dim=2)
    scores = {
        DIFFERENCE: torch.stack([-plain, -plain.abs(), plain], dim=1),
        HEAD: learned.transpose(0, 1),
        FUSED: logits.softmax(dim=1),
        PERMUTED: control.transpose(0, 1),
    }
    archive.close()
    found = [truth[one.prior.study_id, one.present.study_id] for one in test]
    return Measured({n: s.double().numpy() for n, s in scores.items()}, patients, found)


def aucs(scores: Floats, found: list[dict[str, str]], group: str, counts: Floats) -> Floats:
    """The mean AUC over findings, by kind, [kinds, 1 + resamples]."""
    values = np.full((len(CHEX5), len(KINDS), 1 + len(counts)), np.nan)
    for f, finding in enumerate(CHEX5):
        rows = np.flatnonzero([one[finding] in GROUPS[group] for one in found])
        kinds = np.array([KIND[found[row][finding]] for row in rows])
        for k, kind in enumerate(KINDS):
            values[f, k, 0] = area_under_curve(scores[f, k, rows], kinds == kind)
            values[f, k, 1:] = area_under_curve(scores[f, k, rows], kinds == kind, counts[:, rows])
    means: Floats = np.nanmean(values, axis=0)
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("truth", type=Path, help="changes.csv")
    parser.add_argument("indexes", type=Path, nargs="+", help="an index a seed")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = read_table(given.truth, required=["study_id", "prior_study_id"]).rows
    truth = {(row["prior_study_id"], row["study_id"]): row for row in rows}
    seeds = [measured(index, truth, seed) for seed, index in enumerate(given.indexes)]
    patients, found = seeds[0].patients, seeds[0].found
    counts = draw(patients, RESAMPLES, [1]).astype(np.float64)
    written = []
    for group in GROUPS:
        by_model = {
            name: np.stack([aucs(one.scores[name], found, group, counts) for one in seeds])
            for name in seeds[0].scores
        }
        for k, kind in enumerate(KINDS):
            plain = by_model[DIFFERENCE][:, k].mean(axis=0)
            for name, values in by_model.items():
                mean = values[:, k].mean(axis=0)
                gain = mean - plain
                ends = Resampled(mean[0], mean[1:], (), None, len(set(patients))).interval()
                more = Resampled(gain[0], gain[1:], (), None, len(set(patients))).interval()
                each = " ".join(f"{one:.3f}" for one in values[:, k, 0])
                written.append(
                    [
                        group,
                        kind,
                        name,
                        f"{mean[0]:.3f}",
                        *_ends(ends),
                        each,
                        f"{gain[0]:+.3f}",
                        *_ends(more),
                    ]
                )
                print(*written[-1], sep="\t")
    with given.out.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            [
                "pairs",
                "kind",
                "model",
                "auc",
                "low",
                "high",
                "seeds",
                "gain",
                "gain_low",
                "gain_high",
            ]
        )
        table.writerows(written)


def _ends(ends: tuple[float, float] | None) -> list[str]:
    return ["", ""] if ends is None else [f"{one:.3f}" for one in ends]


if __name__ == "__main__":
    main()
