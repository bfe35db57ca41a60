"""An evaluation's figures, computed again from its predictions without cxrtext.

Reads ``predictions.parquet`` with pyarrow and computes AUC, average precision, accuracy, Brier
score, sensitivity, specificity, counts and shares at thresholds, accuracy of classes, AUC of sides,
recall at cut-offs, median ranks, reciprocal ranks and the means of grounding with scikit-learn and
numpy; prints each next to what ``metrics.json`` says.

    python benchmarks/evaluation/recompute.py demo/evaluation
"""

import json
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

SCORES = ("score", "score_positive", "score_negative")
CUTOFFS = (1, 5, 10, 50, 100)
Figures = Iterator[tuple[str, float, float | None]]


def column(table, name):  # type: ignore[no-untyped-def]
    """A column as an array; texts as texts."""
    return np.array(table[name].to_pylist())


def findings(table, metrics) -> Figures:  # type: ignore[no-untyped-def]
    """Zero-shot classification, by finding and their means."""
    table = table.filter(pc.and_(table["measured"], pc.is_in(table["label"], pc_values(0, 1))))
    means: dict[str, list[float]] = {}
    for finding, said in metrics["classification"].items():
        rows = table.filter(pc.equal(table["finding"].cast("string"), finding))
        truth = column(rows, "label")
        scores = {
            name: column(rows, name) for name in ("score", "score_positive", "score_negative")
        }
        if len(set(truth.tolist())) < 2:
            continue
        temperature = said["temperature"] or 1.0
        found = {
            "auc": roc_auc_score(truth, scores["score"]),
            "auc_positive": roc_auc_score(truth, scores["score_positive"]),
            "auc_negative": roc_auc_score(1 - truth, scores["score_negative"]),
            "average_precision": average_precision_score(truth, scores["score"]),
            "accuracy": accuracy_score(truth, scores["score"] > 0),
            "brier": brier_score_loss(truth, 1 / (1 + np.exp(-scores["score"] / temperature))),
        }
        if said["threshold"] is not None:
            above = scores["score"] > said["threshold"]
            found["sensitivity"] = recall_score(truth, above)
            found["specificity"] = recall_score(truth, above, pos_label=0)
        for name, value in found.items():
            yield f"{finding} {name}", value, said[name]
            means.setdefault(name, []).append(value)
    for name in ("auc", "auc_positive", "auc_negative", "accuracy"):
        if len(means.get(name, [])) == len(metrics["classification"]):
            yield f"mean {name}", float(np.mean(means[name])), metrics[f"mean_{name}"]


def operating(table, metrics) -> Figures:  # type: ignore[no-untyped-def]
    """Counts and shares at thresholds, and Youden's threshold from the validation images."""
    for finding, said in metrics["operating"].items():
        rows = table.filter(pc.equal(table["finding"].cast("string"), finding))
        rows = rows.filter(pc.is_in(rows["label"], pc_values(0, 1)))
        own = column(rows, "measured")
        truth, scores = column(rows, "label"), column(rows, "score")
        for point in said["points"]:
            name, above = f"{finding} {point['chosen']}", scores[own] > point["threshold"]
            (left, false), (missed, true) = confusion_matrix(truth[own], above)
            counts = point["counts"]
            yield f"{name} true positives", true, counts["true_positives"]
            yield f"{name} false positives", false, counts["false_positives"]
            yield f"{name} false negatives", missed, counts["false_negatives"]
            yield f"{name} true negatives", left, counts["true_negatives"]
            yield f"{name} PPV", precision_score(truth[own], above), point["ppv"]["value"]
            npv = precision_score(truth[own], above, pos_label=0)
            yield f"{name} NPV", npv, point["npv"]["value"]
            yield f"{name} F1", f1_score(truth[own], above), point["f1"]["value"]
            yield f"{name} MCC", matthews_corrcoef(truth[own], above), point["mcc"]["value"]
            if point["chosen"] == "Youden":
                wrong, right, cuts = roc_curve(truth[~own], scores[~own], drop_intermediate=False)
                best = int((right - wrong).round(12).argmax())
                middle = (cuts[best] + cuts[best + 1]) / 2
                yield f"{name} threshold", middle, point["threshold"]


def classes(table, metrics) -> Figures:  # type: ignore[no-untyped-def]
    """Accuracy of the finding that scores highest, of images with exactly one."""
    names = list(metrics["classification"])
    rows = table.filter(table["measured"])
    images = rows["image"].cast("string").to_pylist()
    which = rows["finding"].cast("string").to_pylist()
    place = {image: number for number, image in enumerate(dict.fromkeys(images))}
    at = [names.index(one) for one in which], [place[one] for one in images]
    labels, scores = np.zeros((len(names), len(place))), np.zeros((2, len(names), len(place)))
    labels[at] = [label or 0 for label in rows["label"].to_pylist()]
    for number, name in enumerate(("score_positive", "score")):
        scores[number][at] = column(rows, name)
    alone = ((labels == 1).sum(axis=0) == 1) & ~(labels == -1).any(axis=0)
    for number, name in enumerate(("positive prompt", "difference")):
        right = labels.argmax(axis=0) == scores[number].argmax(axis=0)
        said = metrics["multiclass"][name]
        yield f"classes, {name}: accuracy", right[alone].mean(), said["accuracy"]["value"]
        balanced = balanced_accuracy_score(
            labels.argmax(axis=0)[alone], scores[number].argmax(axis=0)[alone]
        )
        yield f"classes, {name}: mean recall", balanced, said["balanced_accuracy"]


def sides(table, metrics) -> Figures:  # type: ignore[no-untyped-def]
    """The AUC of the side, and the share of peaks on it, of all sentences."""
    left = column(table, "side") == "left"
    gap = column(table, "score") - column(table, "score_mirrored")
    said = metrics["sides"]["all"]
    yield "sides: AUC", roc_auc_score(left, np.where(left, gap, -gap)), said["auc"]["value"]
    yield "sides: own sentence higher", float((gap > 0).mean()), said["preferred"]["value"]
    peaks = column(table, "peak_on_side").astype(float)
    yield "sides: peak on it", float(np.nanmean(peaks)), said["peak"]["value"]


def pc_values(*values):  # type: ignore[no-untyped-def]
    """Values to look a column up in."""
    import pyarrow as pa

    return pa.array(values, pa.int8())


def grounding(table, metrics) -> Figures:  # type: ignore[no-untyped-def]
    """Means over sentences; mIoU once more from the overlap at each threshold."""
    names = {"cnr": "CNR", "cnr_signed": "signed CNR", "miou": "mIoU", "pointing": "pointing game"}
    if not len(table):
        return
    for name, said in names.items():
        yield (
            said,
            float(np.nanmean(column(table, name).astype(float))),
            metrics["grounding"]["mean"][said],
        )
    overlap = np.array(table["iou"].to_pylist(), dtype=float)
    yield (
        "mIoU of overlaps",
        float(np.nanmean(overlap.mean(axis=1))),
        metrics["grounding"]["mean"]["mIoU"],
    )


def ranks(name: str, values, candidates: int, said) -> Figures:  # type: ignore[no-untyped-def]
    """Recall at cut-offs, median rank and mean reciprocal rank of one direction."""
    for cut in (one for one in CUTOFFS if one < candidates):
        yield f"{name} R@{cut}", float((values <= cut).mean()), said[f"R@{cut}"]
    yield f"{name} MedR", float(np.median(values)), said["MedR"]
    yield f"{name} MRR", float((1 / values).mean()), said["MRR"]


def figures(folder: Path) -> Figures:
    """Every figure: its name, as computed here, and as ``metrics.json`` has it."""
    metrics = json.loads((folder / "metrics.json").read_text())
    table = pq.read_table(folder / "predictions.parquet")
    part = table["part"].cast("string")
    parts = {name: table.filter(pc.equal(part, name)) for name in set(part.to_pylist())}
    yield from findings(parts["classification"], metrics)
    yield from operating(parts["classification"], metrics)
    if metrics["multiclass"]:
        yield from classes(parts["classification"], metrics)
    if "sides" in parts:
        yield from sides(parts["sides"], metrics)
    if "grounding" in parts:
        yield from grounding(parts["grounding"], metrics)
    if "box retrieval" in parts:
        rows, said = parts["box retrieval"], metrics["box_retrieval"]
        recall = []
        for direction in ("sentence to box", "box to sentence"):
            values = column(rows, direction.replace(" ", "_"))
            yield from ranks(direction, values, len(rows), said[direction])
            recall += [(values <= cut).mean() for cut in (10, 50, 100)]
        if said["Recall"] is not None:
            yield "Recall of boxes", float(np.mean(recall)), said["Recall"]
    for direction, said in metrics["retrieval"].items():
        rows = parts["retrieval"]
        rows = rows.filter(pc.equal(rows["direction"].cast("string"), direction))
        values = column(rows, "rank")
        yield from ranks(direction, values, int(column(rows, "candidates")[0]), said)


def main() -> None:
    """Print the table, and fail where a figure differs by more than 1e-9."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "predictions.parquet").is_file():
        raise SystemExit("give a folder of 'cxrtext evaluate --out'")
    largest, count = 0.0, 0
    print(f"{'figure':44} {'scikit-learn':>14} {'metrics.json':>14} {'difference':>11}")
    for name, value, said in figures(Path(sys.argv[1])):
        gap = abs(value - said) if said is not None else float("inf")
        largest, count = max(largest, gap), count + 1
        print(f"{name:44} {value:14.10f} {said if said is None else f'{said:14.10f}'} {gap:11.1e}")
    print(f"{count} figures, largest difference {largest:.1e}")
    if not largest <= 1e-9:
        raise SystemExit("a figure differs")


if __name__ == "__main__":
    main()
