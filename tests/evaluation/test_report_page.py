"""The files of a report."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cxrtext.evaluation import Evaluation, Prompts, evaluate
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.records import Box, write_boxes
from tests.evaluation.conftest import PROMPTS, QUICK

CLEAR = ("The lungs are clear.",)
MARKED = {**PROMPTS, "Pneumothorax": Prompts(("Right pneumothorax. <b>",), CLEAR)}


@pytest.fixture(scope="module")
def evaluated(
    checkpoint: Path, data_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Evaluation:
    corner, said = (40.0, 40.0, 40.0, 40.0), ("Pleural Effusion", "Left pleural effusion.")
    path = tmp_path_factory.mktemp("boxes") / "boxes.json"
    names = [f"images/s{i:02d}.png" for i in range(1, 48, 3)]
    write_boxes(path, [Box(name, 80, 80, *said, corner) for name in names])
    settings = replace(QUICK, boxes=path, probe=True)
    return evaluate(checkpoint, data_folder, prompts=MARKED, settings=settings)


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def test_what_a_user_wrote_is_escaped(evaluated: Evaluation, tmp_path: Path) -> None:
    write_report(tmp_path, evaluated)
    page = read(tmp_path, "report.html")
    assert "Right pneumothorax. <b>" not in page
    texts = re.sub(r"base64,[^\"]*", "", page)
    assert "nan" not in texts.lower().split()
    titles = ("Zero-shot classification", "Grounding", "Linear probes", "The images")
    for title in titles:
        assert f">{title}</h2>" in page
    assert "data:image/svg+xml" in page


def test_pictures_are_said_and_can_be_left_out(evaluated: Evaluation, tmp_path: Path) -> None:
    write_report(tmp_path / "with", evaluated, ReportOptions(examples=2))
    with_pictures = read(tmp_path / "with", "report.html")
    # two best and two worst in pairs
    assert with_pictures.count("data:image/png") == 2 * 2 * 2
    assert "This page holds pixels of patients" in with_pictures
    write_report(tmp_path / "without", evaluated, ReportOptions(pictures=False))
    plain = read(tmp_path / "without", "report.html")
    assert "data:image/png" not in plain
    assert "holds pixels" not in plain
    assert "Best grounded" not in plain


def test_the_results_are_finite(evaluated: Evaluation, tmp_path: Path) -> None:
    write_report(tmp_path, evaluated, ReportOptions(pictures=False))
    about = json.loads(read(tmp_path, "evaluation.json"))
    assert json.dumps(about, allow_nan=False)
    lines = list(csv.DictReader(read(tmp_path, "results.csv").splitlines()))
    rows = {(row["part"], row["group"], row["measure"]): row for row in lines}
    assert len(rows) == len(lines) == len(evaluated.rows)
    for one in evaluated.rows:
        told = rows[one.part, one.group, one.measure]
        value = "" if one.value is None else str(one.value)
        assert (told["value"], told["method"]) == (value, one.method)
