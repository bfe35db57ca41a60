"""What an evaluation writes, against figures computed from its predictions by hand."""

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.border.conftest import answer, refusal, rows_of
from tests.commands import cxrtext
from tests.conftest import Once


@pytest.fixture(scope="session")
def evaluated(checkpoint: Path, drawn: Path, once: Once) -> Path:
    def make(folder: Path) -> None:
        given = checkpoint, "--data", drawn, "--split", "all", "--device", "cpu"
        cxrtext("evaluate", *given, "--out", folder / "evaluation", "--resamples", 50)

    return once("border-evaluation", make) / "evaluation"


def figures(folder: Path, measure: str) -> dict[str, dict[str, str]]:
    rows = [row for row in rows_of(folder / "results.csv") if row["measure"] == measure]
    return {row["group"]: row for row in rows if row["part"] == "zero-shot classification"}


def classified(folder: Path) -> list[dict[str, Any]]:
    rows = pq.read_table(folder / "predictions.parquet").to_pylist()
    return [row for row in rows if row["part"] == "classification"]


def test_auc_is_the_share_of_pairs_in_the_right_order(evaluated: Path) -> None:
    found = figures(evaluated, "AUC")
    checked = 0
    for finding in {row["finding"] for row in classified(evaluated)}:
        rows = [row for row in classified(evaluated) if row["finding"] == finding]
        positive = [row["score"] for row in rows if row["label"] == 1]
        negative = [row["score"] for row in rows if row["label"] == 0]
        if not positive or not negative or finding not in found:
            continue
        pairs = [(p > n) + 0.5 * (p == n) for p, n in product(positive, negative)]
        auc, row = sum(pairs) / len(pairs), found[finding]
        assert float(row["value"]) == pytest.approx(auc, abs=1e-6)
        assert float(row["low"] or 0) <= auc <= float(row["high"] or 1)
        checked += 1
    assert checked >= 3


def test_labels_of_the_predictions_are_those_of_the_data(evaluated: Path, drawn: Path) -> None:
    labels = {row["study_id"]: row for row in rows_of(drawn / "labels.csv")}
    for row in classified(evaluated):
        assert row["label"] == int(labels[row["study_id"]][row["finding"]])


def test_every_figure_comes_again_from_the_predictions_alone(
    evaluated: Path, drawn: Path, tmp_path: Path
) -> None:
    given = "--from", evaluated / "predictions.parquet", "--data", drawn, "--resamples", 50
    cxrtext("evaluate", *given, "--out", tmp_path / "again")
    assert rows_of(tmp_path / "again/results.csv") == rows_of(evaluated / "results.csv")


def test_a_model_compared_with_itself_differs_by_nothing(evaluated: Path, tmp_path: Path) -> None:
    cxrtext("compare", evaluated, evaluated, "--out", tmp_path / "comparison")
    assert (tmp_path / "comparison/comparison.html").is_file()
    compared = answer("compare", evaluated, evaluated)
    assert {one["measure"] for one in compared["differences"]} >= {"AUC", "ACC"}
    assert all(one["estimate"] in (None, 0) for one in compared["differences"])


def test_the_report_page_stands_alone(evaluated: Path) -> None:
    page = (evaluated / "report.html").read_text("utf-8")
    assert "<html" in page
    assert 'src="http' not in page


def test_data_without_the_split_is_refused(checkpoint: Path, drawn: Path, tmp_path: Path) -> None:
    given = "--data", drawn, "--split", "holdout", "--out", tmp_path / "out"
    assert "holdout" in refusal("evaluate", checkpoint, *given)
    assert not (tmp_path / "out").exists()
