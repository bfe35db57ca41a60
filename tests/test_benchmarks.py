"""Every benchmark script runs, at its smallest size, and prints its table.

``images/dicom_variants.py`` checks what it measures and ends with an error where something is
wrong.  ``evaluation/recompute.py`` is run by :mod:`tests.evaluation.test_predictions`.  Not run:
``models/pairs.py``, which needs the packages of other projects, and the one of ``pacs``, which
needs an Orthanc.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cxrtext.datasets.importing.formats.listed import FINDINGS
from cxrtext.language import score_reports
from cxrtext.phantom import write_phantoms
from tests.datasets.written import save_table

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.benchmarks


def run(script: str, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_training_step() -> None:
    sizes = {"size": 72, "crop": 64, "files": 64, "images": 8, "batch": 4, "steps": 1, "workers": 1}
    said = run("training/step.py", *(word for n, v in sizes.items() for word in (f"--{n}", v)))
    assert "ratio" in said


def test_similarity() -> None:
    assert "4 x 4 cpu ratio" in run("training/similarity.py", "--batches", 4, "--repeat", 1)


def test_reading_images() -> None:
    assert "JPEG 2000" in run("images/reading.py", "--images", 1, "--rounds", 1)


def test_kinds_of_dicom() -> None:
    assert "refusals" in run("images/dicom_variants.py")


def test_a_hospital_archive(tmp_path: Path) -> None:
    assert "| " in run("images/archive.py", tmp_path / "archive", "--studies", 20, "--kills", 1)


def test_scoring(data_folder: Path, language_model: Path) -> None:
    reports = ["--reports", data_folder / "reports.csv", "--model", language_model]
    assert "sentences/s" in run("language/score_text.py", *reports, "--threads", 1)


def test_false_negatives(language_model: Path, tmp_path: Path) -> None:
    write_phantoms(tmp_path, studies=60, size=64, workers=1)
    score_reports(tmp_path / "reports.csv", tmp_path / "sentences.csv", model=language_model)
    assert "Spearman" in run("language/negatives.py", tmp_path)


def test_labels_of_reports(tmp_path: Path) -> None:
    texts = ["The heart is enlarged.", "Large right pleural effusion.", "No acute disease."]
    reports = [{"study_id": i, "findings": texts[i % 3]} for i in range(40)]
    save_table(tmp_path / "reports.csv", reports)
    labels = [{"study_id": i, **dict.fromkeys(FINDINGS, int(i % 3 == 0))} for i in range(40)]
    save_table(tmp_path / "labels.csv", labels)
    said = run("language/label_reports.py", tmp_path)
    assert "100.0% of sentences read" in said
    assert "1.000  1.000 1.000" in said


def test_search(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    sizes = {"images": 200, "pool": 16, "queries": 3, "exact": 2, "brute": 1, "work": tmp_path}
    words = [word for name, value in sizes.items() for word in (f"--{name}", value)]
    assert "| mean vector recall@10" in run("search/search.py", checkpoint, data_folder, *words)


def test_serving(checkpoint: Path, index_folder: Path) -> None:
    few = ["--seconds", 0.3, "--clients", 1, "--questions", "search-id"]
    assert "| search-id" in run("serving/serve.py", checkpoint, index_folder, *few)


def test_estimate_for_gpus() -> None:
    words = ["--batches", 1, "--size", 64]
    assert "| resnet50 | 1 |" in run("training/gpu_estimate.py", *words)
