"""Reports become scored sentences and labels."""

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import cxrtext
from tests.border.conftest import killed_once, refusal, rows_of, score, tree
from tests.commands import cxrtext as command
from tests.datasets.written import save_table
from tests.warm import Warm


def log_likelihood(folder: Path, sentence: str) -> float:
    """The sum of log P of each word piece while it alone is masked, one after the other."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
    total = 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = tokenizer.mask_token_id
        with torch.no_grad():
            log_p = model(input_ids=masked).logits[0, place].double().log_softmax(-1)
        total += float(log_p[ids[0, place]])
    return total


def test_scores_are_those_of_a_plain_loop(sentences: Path, language_model: Path) -> None:
    for row in rows_of(sentences)[:8]:
        found = float(row["log_likelihood"])
        assert found == pytest.approx(log_likelihood(language_model, row["sentence"]), abs=1e-3)
        # Wang et al. 2023: eta = a P^k, with the defaults of score-text.
        assert float(row["eta"]) == pytest.approx(0.2 * math.exp(0.35 * found), rel=1e-5)


def test_score_sentences_in_python_gives_what_the_table_holds(
    sentences: Path, language_model: Path
) -> None:
    rows = rows_of(sentences)[:8]
    found = cxrtext.score_sentences([row["sentence"] for row in rows], model=str(language_model))
    assert [float(x) for x in found] == pytest.approx(
        [float(row["log_likelihood"]) for row in rows], abs=1e-4
    )


def test_a_killed_scoring_goes_on_and_ends_with_the_same_bytes(
    drawn: Path, language_model: Path, sentences: Path, warm: Warm, tmp_path: Path
) -> None:
    rows = rows_of(drawn / "reports.csv")
    many = [{**row, "findings": f"{row['findings']} Stable for {i} days."}
            for i in range(30) for row in rows]  # fmt: skip
    for i, row in enumerate(many):
        row["study_id"] = f"s{i}"
    save_table(tmp_path / "reports.csv", many)
    given = "score-text", tmp_path / "reports.csv", "--model", language_model, "--device", "cpu"
    table, cache = tmp_path / "out/sentences.csv", tmp_path / "scores.sqlite"
    killed_once(warm, cache, *given, "--out", table, "--cache", cache)
    assert not table.exists()
    command(*given, "--out", table, "--cache", cache)
    command(*given, "--out", tmp_path / "whole.csv", "--no-cache")
    assert table.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_sentences_on_standard_input(language_model: Path) -> None:
    given = "score-text", "-", "--model", language_model, "--out", "-", "--device", "cpu"
    lines = command(*given, text=b"The lungs are clear.\nNo effusion.\n").stdout.splitlines()
    assert len(lines) == 3
    assert "The lungs are clear." in lines[1]


def test_a_row_without_a_study_is_named(language_model: Path, tmp_path: Path) -> None:
    save_table(
        tmp_path / "reports.csv",
        [{"study_id": "s1", "findings": "Clear."}, {"study_id": "", "findings": "Clear."}],
    )
    given = "--model", language_model, "--max-rejected", 0
    out = "--out", tmp_path / "sentences.csv"
    line = refusal("score-text", tmp_path / "reports.csv", *given, *out)
    assert "reports.csv" in line
    assert "row 2" in line
    assert not (tmp_path / "sentences.csv").exists()


def test_labels_are_read_off_prose(tmp_path: Path) -> None:
    texts = {
        "a": "Small left pleural effusion. No pneumothorax.",
        "b": "Possible pneumonia. The heart is normal in size.",
        "c": "Severe cardiomegaly without edema.",
    }
    save_table(tmp_path / "reports.csv", [{"study_id": k, "findings": v} for k, v in texts.items()])
    command("label-reports", tmp_path / "reports.csv", "--out", tmp_path / "labels.csv")
    labels = {row["study_id"]: row for row in rows_of(tmp_path / "labels.csv")}
    assert (labels["a"]["Pleural Effusion"], labels["a"]["Pneumothorax"]) == ("1", "0")
    assert labels["b"]["Pneumonia"] == "-1"
    assert (labels["c"]["Cardiomegaly"], labels["c"]["Edema"]) == ("1", "0")


def test_a_language_model_is_made_alike_from_the_same_reports(
    drawn: Path, language_model: Path, tmp_path: Path
) -> None:
    options = "--size", "demo", "--epochs", 1, "--device", "cpu"
    command("pretrain-text", drawn / "reports.csv", "--out", tmp_path / "again", *options)
    names = "model.safetensors", "tokenizer.json"
    made, again = tree(language_model), tree(tmp_path / "again")
    assert all(made[name] == again[name] for name in names)


def test_scoring_without_a_model_says_how_to_get_one(drawn: Path, tmp_path: Path) -> None:
    given = "--model", tmp_path / "no-model", "--out", tmp_path / "out.csv"
    assert "no-model" in refusal("score-text", drawn / "reports.csv", *given)


def test_a_fixed_point_of_the_table_is_itself(
    sentences: Path, language_model: Path, tmp_path: Path
) -> None:
    """A table of sentences may be scored again, and says the same."""
    score(sentences, language_model, tmp_path / "again.csv")
    first, again = rows_of(sentences), rows_of(tmp_path / "again.csv")
    assert [r["log_likelihood"] for r in first] == [r["log_likelihood"] for r in again]
