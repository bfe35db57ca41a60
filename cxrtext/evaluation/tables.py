"""An evaluation as tables a person reads."""

from collections.abc import Sequence

from cxrtext.evaluation.run import Evaluation


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def classification_rows(result: Evaluation) -> list[list[str]]:
    """Header, one row a finding, and the mean."""
    rows = [["finding", "AUC", "ACC", "with", "without", "left out"]]
    for finding, one in result.classification.items():
        counts = [str(n) for n in (one.positives, one.negatives, one.left_out)]
        rows.append([finding, _number(one.auc), _number(one.accuracy), *counts])
    rows.append(["mean", _number(result.mean_auc), _number(result.mean_accuracy), "", "", ""])
    return rows


def retrieval_rows(result: Evaluation) -> list[list[str]]:
    """Header and one row a direction."""
    names = list(dict.fromkeys(name for m in result.retrieval.values() for name in m))
    rows = [["direction", *names]]
    for direction, metrics in result.retrieval.items():
        cells = []
        for name in names:
            whole = name in ("queries", "candidates")
            digits = 0 if whole else 1 if name == "MedR" else 3
            cells.append(_number(metrics.get(name), digits))
        rows.append([direction, *cells])
    return rows


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table, the first as its header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def markdown_report(result: Evaluation) -> str:
    """The whole evaluation as ``report.md``."""
    parts = [
        "# Evaluation",
        f"{result.images} images of {result.patients} patients, split '{result.split}' of "
        f"`{result.data}`; model `{result.checkpoint}`, fingerprint `{result.fingerprint[:16]}`.",
    ]
    if result.classification:
        parts += [
            "## Zero-shot classification",
            "The label is the prompt with the higher image-sentence score; AUC is that of the "
            "score difference. Uncertain and unknown labels are left out.",
            markdown_table(classification_rows(result)),
        ]
    if result.retrieval:
        parts += [
            "## Retrieval of sentences and images",
            "Queries and candidates are the images of the split and the distinct sentences of "
            "their reports; every image whose report holds the sentence is a right answer; ties "
            "count against the model.",
            markdown_table(retrieval_rows(result)),
        ]
    if result.left_out:
        parts += ["## Left out", "\n".join(f"- {line}" for line in result.left_out)]
    parts.append("Research use only; not a medical device.")
    return "\n\n".join(parts) + "\n"
