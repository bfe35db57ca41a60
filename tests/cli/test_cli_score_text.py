"""``cxrtext score-text`` as it is meant to be used."""

import json
from pathlib import Path

import pytest

from cxrtext.files import read_sealed, sha256
from cxrtext.records import read_sentences
from tests.cli.conftest import cxrtext


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    path = tmp_path / "reports.csv"
    path.write_text(
        "study_id,findings,impression\ns1,The lungs are clear.,Right pneumothorax.\n"
        "s2,,\ns3,Left pleural effusion.,The lungs are clear.\n"
    )
    return path


def test_a_table_stands_beside_reports(reports: Path, language_model: Path, tmp_path: Path) -> None:
    done = cxrtext("score-text", reports, "--model", language_model, "--device", "cpu")
    first, understood, second = done.stdout.splitlines()
    assert first.startswith(f"{tmp_path / 'sentences.csv'}: 4 sentences (3 distinct, ")
    assert " of 2 reports in " in first
    assert understood.startswith("understood by the rules of labels: 100.0% of the sentences")
    assert second == "reports without text: 1"
    assert "scoring: 3/3 sentences" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "reports.csv", "scores.sqlite", "sentences.csv", "sentences.csv.meta.json",
    ]  # fmt: skip
    again = cxrtext("score-text", reports, "--model", language_model, "--device", "cpu")
    assert "distinct sentences whose score was known: 3" in again.stdout
    assert "scoring" not in again.stderr


def test_every_option_reaches_the_run(reports: Path, language_model: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "o.parquet", tmp_path / "cache.db"
    cxrtext(
        "score-text", reports, "--model", language_model, "--out", out, "--device", "cpu",
        "--a", "0.4", "--k", "0.5", "--section", "impression",
        "--precision", "bfloat16", "--cache", cache,
    )  # fmt: skip
    notes = read_sealed(tmp_path / "o.parquet.meta.json")
    assert notes.pop("table_sha256") == sha256(tmp_path / "o.parquet")
    for name, value in {
        "a": 0.4, "k": 0.5, "fitted": False, "precision": "bfloat16",
        "sentences": 2, "from_cache": 0, "rejected": 0,
    }.items():  # fmt: skip
        assert notes[name] == value, name
    assert {r.section for r in read_sentences(out)} == {"impression"}
    assert cache.exists()
    assert not (tmp_path / "scores.sqlite").exists()


def test_a_fit_is_told(language_model: Path, tmp_path: Path) -> None:
    first, second = ("left", "right", "small", "basal", "hilar"), ("pleural", "pericardial", "no")
    texts = [f"{w} {x} effusion." for w in first for x in (*second, "apical", "upper", "mild")]
    path = tmp_path / "s.csv"
    path.write_text("sentence\n" + "\n".join(texts + texts[:9] * 3) + "\n")
    options = ["--model", language_model, "--device", "cpu", "--fit", "--no-cache"]
    done = cxrtext("score-text", path, *options, "--out", tmp_path / "o.csv")
    meta = json.loads((tmp_path / "o.csv.meta.json").read_text())
    assert meta["fitted"] is True
    assert f"a = {meta['a']:.3g}, k = {meta['k']:.3g}" in done.stdout
    assert not (tmp_path / "scores.sqlite").exists()
