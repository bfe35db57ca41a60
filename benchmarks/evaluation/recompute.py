"""An evaluation's figures, computed again from its predictions without cxrtext.

Reads ``predictions.parquet`` with pyarrow and computes AUC, average precision, accuracy, Brier
score, sensitivity, specificity, counts and shares at thresholds, accuracy of classes, AUC of sides,
recall at cut-offs, median ranks, reciprocal ranks and the means of grounding with scikit-learn and
numpy; prints each next to what ``results.csv`` says.

    python benchmarks/evaluation/recompute.py demo/evaluation
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)

CUTOFFS = (1, 5, 10, 50, 100)
Said = dict[tuple[str, str, str], float]
"""By part, group and measure."""
Figures = Iterator[tuple[tuple[str, str, str], float]]


def column(table, name):  # type: ignore[no-untyped-def]
    """A column as an array; texts as texts."""
    return np.array(table[name].to_pylist())


def findings(table, said: Said) -> Figures:  # type: ignore[no-untyped-def]
    """Zero-shot classification, by finding and their means."""
    part = "zero-shot classification"
    table = table.filter(pc.and_(table["measured"], pc.is_in(table["label"], pc_values(0, 1))))
    means: dict[str, list[float]] = {}
    names = [group for of, group, name in said if (of, name) == (part, "with")]
    for finding in names:
        rows = table.filter(pc.equal(table["finding"].cast("string"), finding))
        truth = column(rows, "label")
        if len(set(truth.tolist())) < 2:
            continue
        score = column(rows, "score")
        temperature = said.get((part, finding, "T"), 1.0)
        found = {
            "AUC": roc_auc_score(truth, score),
            "AP": average_precision_score(truth, score),
            "ACC": accuracy_score(truth, score > 0),
            "Brier": brier_score_loss(truth, 1 / (1 + np.exp(-score / temperature))),
        }
        if "score_positive" in table.column_names:  # else the model has one score
            positive, negative = column(rows, "score_positive"), column(rows, "score_negative")
            found["AUC, positive prompt"] = roc_auc_score(truth, positive)
            found["AUC, negative prompt"] = roc_auc_score(1 - truth, negative)
        if (part, finding, "threshold") in said:
            above = score > said[part, finding, "threshold"]
            found["sensitivity"] = recall_score(truth, above)
            found["specificity"] = recall_score(truth, above, pos_label=0)
        for name, value in found.items():
            yield (part, finding, name), value
            means.setdefault(name, []).append(value)
    for name in ("AUC", "AUC, positive prompt", "AUC, negative prompt", "ACC"):
        if len(means.get(name, [])) == len(names):
            yield (part, "mean", name), float(np.mean(means[name]))


def operating(table, said: Said) -> Figures:  # type: ignore[no-untyped-def]
    """Counts and shares at thresholds, and Youden's threshold from the validation images."""
    for (part, finding, name), threshold in said.items():
        if not part.startswith("operating points") or name != "threshold":
            continue
        rows = table.filter(pc.equal(table["finding"].cast("string"), finding))
        rows = rows.filter(pc.is_in(rows["label"], pc_values(0, 1)))
        own = column(rows, "measured")
        truth, scores = column(rows, "label"), column(rows, "score")
        above = scores[own] > threshold
        (left, false), (missed, true) = confusion_matrix(truth[own], above)
        for measure, value in (
            ("TP", true),
            ("FP", false),
            ("FN", missed),
            ("TN", left),
            ("PPV", precision_score(truth[own], above)),
            ("NPV", precision_score(truth[own], above, pos_label=0)),
            ("F1", f1_score(truth[own], above)),
            ("MCC", matthews_corrcoef(truth[own], above)),
        ):
            yield (part, finding, measure), value
        if part.endswith("Youden"):
            wrong, right, cuts = roc_curve(truth[~own], scores[~own], drop_intermediate=False)
            best = int((right - wrong).round(12).argmax())
            yield (part, finding, "threshold"), (cuts[best] + cuts[best + 1]) / 2


def classes(table) -> Figures:  # type: ignore[no-untyped-def]
    """Accuracy of the finding that scores highest, of images with exactly one."""
    part = "findings as classes"
    rows = table.filter(table["measured"])
    images = rows["image"].cast("string").to_pylist()
    which = rows["finding"].cast("string").to_pylist()
    names = list(dict.fromkeys(which))
    place = {image: number for number, image in enumerate(dict.fromkeys(images))}
    at = [names.index(one) for one in which], [place[one] for one in images]
    labels, scores = np.zeros((len(names), len(place))), np.zeros((2, len(names), len(place)))
    labels[at] = [label or 0 for label in rows["label"].to_pylist()]
    first = "score_positive" if "score_positive" in rows.column_names else "score"
    for number, name in enumerate((first, "score")):
        scores[number][at] = column(rows, name)
    alone = ((labels == 1).sum(axis=0) == 1) & ~(labels == -1).any(axis=0)
    truth = labels.argmax(axis=0)[alone]
    for number, name in enumerate(("positive prompt", "difference")):
        best = scores[number].argmax(axis=0)[alone]
        yield (part, name, "accuracy"), (truth == best).mean()
        yield (part, name, "mean recall"), balanced_accuracy_score(truth, best)


def sides(table) -> Figures:  # type: ignore[no-untyped-def]
    """The AUC of the side, and the share of peaks on it, of all sentences."""
    part, group = "left and right", "all sentences"
    left = column(table, "side") == "left"
    gap = column(table, "score") - column(table, "score_mirrored")
    yield (part, group, "AUC of the side"), roc_auc_score(left, np.where(left, gap, -gap))
    yield (part, group, "above its mirror"), float((gap > 0).mean())
    peaks = column(table, "peak_on_side").astype(float)
    yield (part, group, "peak on its side"), float(np.nanmean(peaks))


def pc_values(*values):  # type: ignore[no-untyped-def]
    """Values to look a column up in."""
    import pyarrow as pa

    return pa.array(values, pa.int8())


def grounding(table) -> Figures:  # type: ignore[no-untyped-def]
    """Means over sentences; mIoU from the overlap at each threshold."""
    where = "grounding", "mean of sentences"
    for name, said in (("cnr", "CNR"), ("cnr_signed", "signed CNR"), ("pointing", "pointing game")):
        yield (*where, said), float(np.nanmean(column(table, name).astype(float)))
    overlap = np.array(table["iou"].to_pylist(), dtype=float)
    yield (*where, "mIoU"), float(np.nanmean(overlap.mean(axis=1)))


def ranks(part: str, group: str, values, candidates: int) -> Figures:  # type: ignore[no-untyped-def]
    """Recall at cut-offs, median rank and mean reciprocal rank of one direction."""
    for cut in (one for one in CUTOFFS if one < candidates):
        yield (part, group, f"R@{cut}"), float((values <= cut).mean())
    yield (part, group, "MedR"), float(np.median(values))
    yield (part, group, "MRR"), float((1 / values).mean())


def figures(folder: Path, said: Said) -> Figures:
    """Every figure: where ``results.csv`` has it, and as computed here."""
    table = pq.read_table(folder / "predictions.parquet")
    part = table["part"].cast("string")
    parts = {name: table.filter(pc.equal(part, name)) for name in set(part.to_pylist())}
    yield from findings(parts["classification"], said)
    yield from operating(parts["classification"], said)
    if ("findings as classes", "difference", "accuracy") in said:
        yield from classes(parts["classification"])
    if "sides" in parts:
        yield from sides(parts["sides"])
    if "grounding" in parts:
        yield from grounding(parts["grounding"])
    if "box retrieval" in parts:
        rows, where = parts["box retrieval"], "retrieval of boxes"
        recall = []
        for direction in ("sentence to box", "box to sentence"):
            values = column(rows, direction.replace(" ", "_"))
            yield from ranks(where, direction, values, len(rows))
            recall += [(values <= cut).mean() for cut in (10, 50, 100)]
        if (where, "both directions", "Recall") in said:
            yield (where, "both directions", "Recall"), float(np.mean(recall))
    if "retrieval" in parts:
        for direction in ("sentence to image", "image to sentence"):
            rows = parts["retrieval"]
            rows = rows.filter(pc.equal(rows["direction"].cast("string"), direction))
            values = column(rows, "rank")
            yield from ranks("retrieval", direction, values, int(column(rows, "candidates")[0]))


def main() -> None:
    """Print the table, and fail where a figure differs by more than 1e-9."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "predictions.parquet").is_file():
        raise SystemExit("give a folder of 'cxrtext evaluate --out'")
    folder = Path(sys.argv[1])
    with (folder / "results.csv").open(newline="", encoding="utf-8") as handle:
        rows = [row for row in csv.DictReader(handle) if row["value"]]
    said = {(row["part"], row["group"], row["measure"]): float(row["value"]) for row in rows}
    largest, count = 0.0, 0
    print(f"{'figure':70} {'scikit-learn':>14} {'results.csv':>14} {'difference':>11}")
    for place, value in figures(folder, said):
        told = said.get(place, float("nan"))
        gap = abs(value - told)
        largest, count = max(largest, gap if gap == gap else float("inf")), count + 1
        print(f"{': '.join(place):70} {value:14.10f} {told:14.10f} {gap:11.1e}")
    print(f"{count} figures, largest difference {largest:.1e}")
    if not largest <= 1e-9:
        raise SystemExit("a figure differs")


if __name__ == "__main__":
    main()
