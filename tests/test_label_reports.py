"""What is made from reports whose sentences were made of labels says so."""

import json
from pathlib import Path

from cxrtext.config import load_config
from cxrtext.evaluation import Settings, evaluate, measure_file
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.language import score_reports
from cxrtext.records.report_sources import MADE, made_of_labels
from cxrtext.training import train
from tests.conftest import _training_options, read_csv
from tests.datasets.written import save_table


def test_scores_checkpoints_and_evaluations_say_so(
    data_copy: Path, language_model: Path, tmp_path: Path
) -> None:
    reports = data_copy / "reports.csv"
    rows = read_csv(reports)
    assert not made_of_labels(reports)
    save_table(reports, [{**row, "source": "hospital"} for row in rows])
    assert not made_of_labels(reports)
    save_table(reports, [{**row, "source": "labels" if row is rows[7] else ""} for row in rows])
    table, out = tmp_path / "sentences.csv", tmp_path / "run"
    assert score_reports(reports, table, model=language_model, device="cpu").warning == MADE
    assert json.loads((tmp_path / "sentences.csv.meta.json").read_text())["warning"] == MADE
    few = ["training.steps=2", "training.warmup=1"]
    train(load_config(None, [*_training_options(data_copy, table, language_model, out), *few]))
    checkpoint = out / "checkpoint"
    assert json.loads((checkpoint / "training.json").read_text())["reports"] == MADE
    result = evaluate(checkpoint, data_copy, settings=Settings())
    write_report(tmp_path / "out", result, ReportOptions())
    assert MADE in (tmp_path / "out/report.html").read_text()
    assert f"| reports | {MADE} |" in (tmp_path / "out/documents/model-card.md").read_text()
    assert MADE in measure_file(tmp_path / "out/predictions.parquet").warnings
