"""Predictions are enough for every figure, and a file of them is read with care."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from cxrtext.errors import DataError
from cxrtext.evaluation import Evaluation, Settings, compare, evaluate, measure_file
from cxrtext.evaluation.comparison import Comparison
from cxrtext.evaluation.measure import PARTS, measure_files
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.evaluation.rows import BOX_RETRIEVAL, GROUNDING, PROBES, RETRIEVAL, ZERO_SHOT
from cxrtext.records import write_table
from tests.conftest import read_csv
from tests.evaluation.conftest import PROMPTS, write_corners

SETTINGS = Settings(probe=True, slices=("sex",))
RECOMPUTE = Path(__file__).parents[2] / "benchmarks/evaluation/recompute.py"


@pytest.fixture(scope="module")
def evaluation(checkpoint: Path, data_folder: Path, tmp_path_factory: Any) -> Evaluation:
    folder = shutil.copytree(data_folder, tmp_path_factory.mktemp("boxed") / "set")
    return evaluate(
        checkpoint, write_corners(folder, masks=True), prompts=PROMPTS, settings=SETTINGS
    )


@pytest.fixture(scope="module")
def written(evaluation: Evaluation, tmp_path_factory: Any) -> Path:
    out: Path = tmp_path_factory.mktemp("written")
    write_report(out, evaluation, ReportOptions())
    return out


def test_every_figure_comes_from_the_file(
    evaluation: Evaluation, written: Path, tmp_path: Path
) -> None:
    again = measure_file(written / "predictions.parquet")
    assert again.to_dict() == evaluation.to_dict()
    said = json.loads((written / "evaluation.json").read_text())
    assert json.loads(json.dumps(again.about())) == said
    again.rows.write(tmp_path / "results.csv")
    assert (tmp_path / "results.csv").read_bytes() == (written / "results.csv").read_bytes()
    parts = {ZERO_SHOT, PROBES, GROUNDING, BOX_RETRIEVAL, RETRIEVAL}
    assert parts <= {row.part for row in again.rows}
    assert again.details is None


def recomputed(folder: Path) -> "subprocess.CompletedProcess[str]":
    """What the program that knows nothing of cxrtext says; it fails where a figure differs."""
    return subprocess.run(
        [sys.executable, str(RECOMPUTE), str(folder)], capture_output=True, text=True, check=False
    )


def test_another_program_computes_every_row_with_an_interval(written: Path, tmp_path: Path) -> None:
    done = recomputed(written)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [int(n) for n in re.findall(r"\d+", done.stdout)]
    assert counts[1] == counts[2] > 100
    shutil.copytree(written, tmp_path / "changed")
    table = tmp_path / "changed/results.csv"
    rows = read_csv(table)
    for row in rows:
        if (row["group"], row["measure"]) == ("Pneumothorax", "AP"):
            row["high"] = "1.01"
    write_table(
        table, list(rows[0]), [*rows, {**rows[0], "measure": "another", "low": "0", "high": "1"}]
    )
    done = recomputed(tmp_path / "changed")
    assert done.returncode == 1
    assert "zero-shot classification: Pneumothorax: AP: " in done.stderr
    assert "another: is not computed here" in done.stderr


def test_another_program_computes_scores_that_tie(by_the_guide: Path, tmp_path: Path) -> None:
    table = pq.read_table(by_the_guide)
    tied = np.round(table["score"].to_numpy(), 1)  # with positives and negatives at one score
    out = tmp_path / "tied"
    out.mkdir()
    pq.write_table(_columns(table, score=tied), out / "predictions.parquet")
    write_report(out, measure_file(out / "predictions.parquet"), ReportOptions())
    done = recomputed(out)
    assert done.returncode == 0, done.stdout + done.stderr


def compared(*files: Path, **settings: Any) -> Comparison:
    measured = (one.rows.compared for one in measure_files(files, **settings))
    return compare(dict(zip("ab", measured, strict=True)))


def test_files_are_compared_whatever_the_order_of_their_rows(
    by_the_guide: Path, tmp_path: Path
) -> None:
    table = pq.read_table(by_the_guide)
    scores = np.random.default_rng(1).normal(0, 0.5, len(table)) + table["score"].to_numpy()
    other = _columns(table, score=scores)
    order = np.random.default_rng(2).permutation(len(table))
    found = []
    for one in (other, other.take(pa.array(order))):
        pq.write_table(one, tmp_path / "other.parquet")
        found.append(compared(by_the_guide, tmp_path / "other.parquet"))
    assert not found[1].left_out
    names = [one.measure for one in found[1].differences]
    assert names == ["AUC", "ACC", "AUC of Edema", "AUC of Mass"]
    assert found[0] == found[1]


def test_without_pictures_no_sentence_is_written(
    evaluation: Evaluation, written: Path, tmp_path: Path
) -> None:
    write_report(tmp_path, evaluation, ReportOptions(sentences=False))
    said = set(pq.read_table(written / "predictions.parquet")["sentence"].to_pylist()) - {None}
    table = pq.read_table(tmp_path / "predictions.parquet")
    kept = set(table["sentence"].to_pylist()) - {None}
    assert len(kept) == len(said)
    assert all(sentence.startswith("sentence ") for sentence in kept)
    assert measure_file(tmp_path / "predictions.parquet").to_dict() == evaluation.to_dict()


def _columns(table: pa.Table, **changed: Any) -> pa.Table:
    for name, values in changed.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    return table


def _spoiled(table: pa.Table, part: str, column: str, value: Any) -> pa.Table:
    parts, values = table["part"].to_pylist(), table[column].to_pylist()
    values[parts.index(part)] = value
    return _columns(table, **{column: values})


@pytest.mark.parametrize(
    ("part", "column", "value", "said"),
    [
        ("classification", "image", None, "a row has no image or no finding"),
        ("retrieval", "rank", 0, "numbers below 1"),
        ("box retrieval", "rank", None, "empty rows"),
        ("phrases", "measure", "IoU", "there is no measure 'IoU' of"),
    ],
)
def test_a_changed_file_is_refused(
    written: Path, tmp_path: Path, part: str, column: str, value: Any, said: str
) -> None:
    table = pq.read_table(written / "predictions.parquet")
    spoiled = tmp_path / "spoiled.parquet"
    pq.write_table(_spoiled(table, part, column, value), spoiled)
    with pytest.raises(DataError, match=f"part '{part}'.*{said}"):
        measure_file(spoiled)


def of_another_model(folder: Path) -> list[dict[str, Any]]:
    """Scores of 2 findings in 90 images of 60 patients, 30 of them for validation, as a CSV."""
    rng = np.random.default_rng(4)
    columns = ("image", "study_id", "patient_id", "split", "finding", "score", "label")
    rows = []
    for number in range(90):
        split = "val" if number % 3 == 0 else "test"
        whose = (f"i{number}.png", f"s{number}", f"p{split}{number // 6}", split)
        for finding in ("Edema", "Mass"):
            label = int(rng.random() < 0.4)
            score = float(rng.normal(2.0 * label - 1))
            cells = (*whose, finding, score, "" if number == 1 else label)
            rows.append(dict(zip(columns, cells, strict=True)))
    write_table(folder / "scores.csv", columns, rows)
    return rows


@pytest.fixture
def by_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the program of the guide to evaluating makes of such scores."""
    of_another_model(tmp_path)
    guide = (Path(__file__).parents[2] / "docs/guides/evaluate.md").read_text(encoding="utf-8")
    (program,) = (b for b in re.findall(r"```python\n(.*?)```", guide, re.S) if "scores.csv" in b)
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    return tmp_path / "predictions.parquet"


def test_another_models_predictions_by_the_guide(by_the_guide: Path, tmp_path: Path) -> None:
    result = measure_file(by_the_guide)
    rows = [r for r in of_another_model(tmp_path) if r["split"] == "test" and r["label"] != ""]
    for finding in ("Edema", "Mass"):
        own = [row for row in rows if row["finding"] == finding]
        truth, scores = ([row[name] for row in own] for name in ("label", "score"))
        found = result.rows.of(ZERO_SHOT, finding)
        assert found["AUC"] == pytest.approx(roc_auc_score(truth, scores))
        assert (found["AUC, positive prompt"], found["AUC, negative prompt"]) == (None, None)
        assert found["left out"] == 1
        assert found["threshold"] is not None
    assert (result.images, result.patients) == (60, 15)
    assert result.primary["value"] == pytest.approx(result.mean_auc)
    write_report(tmp_path / "out", result)
    page = (tmp_path / "out/report.html").read_text()
    assert "The model has one score of a finding and no prompts; above 0 means present." in page
    card = (tmp_path / "out/documents/model-card.md").read_text()
    assert "only its predictions are known" in card


def _described(path: Path, columns: dict[str, Any], **about: Any) -> Path:
    known = {"format": "cxrtext predictions", "version": 1, "checkpoint": "m", "data": "d"}
    metadata = {"cxrtext": json.dumps({**known, "split": "test", **about})}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    return path


def test_patients_on_both_sides_are_warned_about(by_the_guide: Path) -> None:
    assert not any("flatter" in line for line in measure_file(by_the_guide).warnings)
    table = pq.read_table(by_the_guide)
    patients = [name.replace("pval", "ptest") for name in table["patient_id"].to_pylist()]
    pq.write_table(_columns(table, patient_id=patients), by_the_guide)
    (warned,) = (line for line in measure_file(by_the_guide).warnings if "flatter" in line)
    assert warned.startswith("15 patients are among the images measured and the validation images")


PLAIN: dict[str, Any] = {
    "part": ["classification"] * 2,
    "image": ["a", "b"],
    "finding": ["Edema"] * 2,
    "measured": [True, True],
    "score": [0.5, 1.0],
    "label": [0, 1],
}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"measured": ["true", "false"]}, "column 'measured' needs true or false in every row"),
        ({"label": [1, 2]}, "a label is not 1, 0, -1 or empty"),
        ({"score": [0.5, None]}, "a score is missing or not finite"),
        ({"part": ["other", "other"]}, "no row belongs to a known part: classification, "),
    ],
)
def test_mistakes_of_another_program(wrong: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says):
        measure_file(_described(tmp_path / "p.parquet", {**PLAIN, **wrong}))


@pytest.mark.parametrize("fault", [KeyError("a"), TypeError("b"), AttributeError("c")])
def test_a_fault_of_ours_is_no_damaged_file(
    fault: Exception, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Mock(side_effect=fault)
    monkeypatch.setitem(PARTS, "retrieval", (PARTS["retrieval"][0], broken))
    with pytest.raises(type(fault)) as error:
        measure_file(written / "predictions.parquet")
    assert error.value is fault
    with pytest.raises(TypeError, match="resample"):
        measure_file(written / "predictions.parquet", resample=5)
