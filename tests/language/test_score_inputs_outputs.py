"""Every kind of input and output of a scoring run."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.language import score_sentences
from cxrtext.language.eta import fit_class_probability
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.records import Sentence, read_sentences, write_table
from tests.language.conftest import Score

COLUMNS = ["study_id", "findings", "impression"]
ROWS: list[dict[str, object]] = [
    {"study_id": "7", "findings": "The lungs are clear. No pneumothorax.", "impression": None},
    {"study_id": "8", "findings": None, "impression": None},
    {"study_id": "9", "findings": "Heart size is normal.", "impression": "No pneumothorax."},
]
EXPECTED = [
    ("7", "findings", 0, "The lungs are clear."),
    ("7", "findings", 1, "No pneumothorax."),
    ("9", "findings", 0, "Heart size is normal."),
    ("9", "impression", 0, "No pneumothorax."),
]


def places(rows: list[Sentence]) -> list[tuple[str, str, int, str]]:
    return [(r.study_id, r.section, r.position, r.sentence) for r in rows]


def write_mimic(folder: Path) -> Path:
    for row in ROWS:
        path = folder / "p10" / f"p{row['study_id']}" / f"s{row['study_id']}.txt"
        path.parent.mkdir(parents=True)
        parts = [f" {n.upper()}:\n {row[n]}\n" for n in COLUMNS[1:] if row[n]]
        path.write_text(" " * 30 + "FINAL REPORT\n" + "\n".join(parts))
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_reports_of_every_kind_give_the_same_table(
    tiny: MaskedLanguageModel, score: Score, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"reports.{kind}"
    if kind == "folder":
        write_mimic(path)
    else:
        write_table(path, COLUMNS, ROWS)
    summary = score("out.csv", path)
    rows = read_sentences(tmp_path / "out.csv")
    assert places(rows) == EXPECTED
    expected = score_sentences([text for *_, text in EXPECTED], tiny)
    np.testing.assert_allclose([r.log_likelihood for r in rows], expected, rtol=1e-6)
    assert (summary.reports, summary.with_text, summary.without_text) == (3, 2, 1)


def write_corpus(path: Path, reports: int) -> None:
    """Reports of five sentences, of which 40 in all are different, the first far more often."""
    chance = np.random.default_rng(0)
    subjects = ["lungs", "heart", "effusion", "size", "clear"]
    words = ["left", "right", "small", "normal"]
    texts = [f"{s} is {w} {a}." for s in subjects for w in words for a in ("and", "or")]
    weights = 1 / np.arange(1, len(texts) + 1)
    with path.open("w") as handle:
        handle.write("study_id,report\n")
        for number in range(reports):
            some = chance.choice(texts, 5, p=weights / weights.sum())
            handle.write(f"s{number},{' '.join(s.capitalize() for s in some)}\n")


def test_a_fit_is_that_of_the_written_table(score: Score, reports: Path, tmp_path: Path) -> None:
    write_corpus(reports, 60)
    score(fit=True, a=0.5, k=9.0)
    rows = read_sentences(tmp_path / "out.csv")
    counts = Counter((row.sentence.lower(), row.log_likelihood) for row in rows)
    values = np.array([value for _, value in counts])
    a, k = fit_class_probability(values, np.array(list(counts.values())))
    meta = json.loads((tmp_path / "out.csv.meta.json").read_text())
    assert meta["fitted"] is True
    assert (meta["a"], meta["k"]) == (pytest.approx(a), pytest.approx(k))
    assert meta["a"] != 0.5
    eta = [a * np.exp(k * row.log_likelihood) for row in rows]
    np.testing.assert_allclose([row.eta or 0.0 for row in rows], eta, rtol=1e-6)


@pytest.mark.parametrize("name", ["reports.csv", "link.csv"])
def test_the_input_is_never_written_over(
    score: Score, reports: Path, tmp_path: Path, name: str
) -> None:
    before = reports.read_bytes()
    (tmp_path / "link.csv").symlink_to(reports)
    with pytest.raises(DataError, match="is the input; name another file"):
        score(name)
    assert reports.read_bytes() == before


def test_outputs_that_cannot_be_are_refused_before_the_work(score: Score, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, message in (
        ("folder.csv", "is a folder"),
        ("out.txt", r"ends in \.csv or \.parquet"),
    ):
        with pytest.raises(DataError, match=f"{name}: .*{message}"):
            score(name, model=tmp_path / "no")
