"""False negatives of training sets by `cxrtext negatives`, and whether the pairs it lists are any.

Writes `negatives.csv` (each estimate of η beside each measured share) and `negatives_pairs.csv`:
how well reports and labels tell the pairs that are true of drawings, and the share of positives
among the pairs listed by the project's model, with films permuted, and among all other studies.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.evaluation.cohort import Embedder
from cxrtext.models import load_model
from cxrtext.project.layout import CHECKPOINT, DATA, RECIPE
from cxrtext.records import Rejects
from cxrtext.training.negatives.agreement import agreements
from cxrtext.training.negatives.positives import Anchors, Told, read_anchors, tell_positives
from cxrtext.training.negatives.run import likeliest, model_scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", help="NAME=FOLDER, a project or a data folder")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    tables: dict[str, list[dict[str, Any]]] = {"negatives": [], "negatives_pairs": []}
    for name, _, place in (one.partition("=") for one in given.sets):
        folder = Path(place)
        data = folder / DATA if (folder / RECIPE).is_file() else folder
        anchors = read_anchors(data / "manifest.csv", folder / "sentences.csv")
        told = tell_positives(anchors, data, data / "labels.csv")
        of_set: dict[str, Any] = {"set": name, "studies": len(anchors.records)}
        of_set["anchors"] = int(anchors.count.sum())
        rows = agreements(anchors, told, 63)[1]
        tables["negatives"] += [of_set | row for row in rows]
        tables["negatives_pairs"] += [of_set | row for row in _told_apart(told)]
        if (folder / CHECKPOINT).is_dir():
            rows = list(_listed(anchors, told, folder / CHECKPOINT))
            tables["negatives_pairs"] += [of_set | row for row in rows]
    for name, rows in tables.items():
        with (given.out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(
                {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
                for row in rows
            )


def _row(what: str, way: str, pairs: int, values: tuple[float, ...]) -> dict[str, Any]:
    names = ("value", "control: films permuted", "control: all other studies")
    return {"what": what, "way": way, "pairs": pairs, **dict(zip(names, values, strict=True))}


def _told_apart(told: Told) -> Iterator[dict[str, Any]]:
    """Precision and recall of each way where the truth is known."""
    if "truth" not in told:
        return
    truth, known = told["truth"]
    order = np.random.default_rng(0).permutation(truth.shape[1])
    for way in ("repeats", "reports", "labels"):
        both = told[way][1] & known
        mine, right = told[way][0][both], truth[both]
        hits, mixed = (float((mine & some).sum()) for some in (right, right[:, order]))
        total, there = float(mine.sum()), float(right.sum())
        prior = float(right.mean())
        yield _row("precision", way, int(total), (hits / total, mixed / total, prior))
        yield _row("recall", way, int(there), (hits / there, mixed / there, total / right.size))


def _listed(anchors: Anchors, told: Told, checkpoint: Path) -> Iterator[dict[str, Any]]:
    """The share of positives among the pairs that a model holds for likeliest."""
    model = load_model(checkpoint)
    scores = model_scores(anchors, model, Embedder(model, None, Rejects(), len(anchors.records)))
    eta = np.array([one.eta for one in anchors.sentences], dtype=np.float64)
    order = np.random.default_rng(0).permutation(scores.shape[1])
    said = told["repeats"][0]
    right, mixed = (likeliest(said, some, eta)[:2] for some in (scores, scores[:, order]))
    base = [(true & ~said).sum(axis=1) / (~said).sum(axis=1) for true, _ in told.values()]
    for most, what in ((len(right[0]), "listed"), (1000, "the first 1,000 listed")):
        for (way, (true, judged)), share in zip(told.items(), base, strict=True):
            if way == "repeats":
                continue
            kept = [
                (sentence[judged[sentence]][:most], study[judged[sentence]][:most])
                for sentence, study in (right, mixed)
            ]
            hits = [float(true[pairs].mean()) for pairs in kept]
            yield _row(what, way, len(kept[0][0]), (*hits, float(share[kept[0][0]].mean())))


if __name__ == "__main__":
    main()
