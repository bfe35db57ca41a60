import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import ConfigError, DataError
from cxrtext.language import score_sentences
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.records import read_sentences
from tests.language.conftest import Score

TEXTS = [
    ("s1", "findings", 0, "The lungs are clear."),
    ("s1", "findings", 1, "No pneumothorax."),
    ("s1", "impression", 0, "No pneumothorax."),
    ("s2", "findings", 0, "There is a small left pleural effusion, new."),
    ("s5", "impression", 0, "Heart size is normal."),
    ("s5", "impression", 1, "The lungs are clear."),
    ("s6", "findings", 0, "No pneumothorax."),
    ("s6", "impression", 0, "The lungs are clear."),
]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_sentence_is_written_with_its_values(
    tiny: MaskedLanguageModel, score: Score, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"out/sentences.{ending}"
    summary = score(out, a=0.3, k=0.5)
    rows = read_sentences(out)
    assert [(r.study_id, r.section, r.position, r.sentence) for r in rows] == TEXTS
    expected = score_sentences([text for *_, text in TEXTS], tiny)
    np.testing.assert_allclose([r.log_likelihood for r in rows], expected, rtol=1e-6)
    eta = 0.3 * np.exp(0.5 * expected)
    np.testing.assert_allclose([r.eta or 0.0 for r in rows], eta, rtol=1e-5)
    meta = json.loads((tmp_path / f"out/sentences.{ending}.meta.json").read_text())
    assert meta["model"] == "tiny"
    assert meta["fingerprint"] == tiny.fingerprint
    assert (meta["a"], meta["k"]) == (0.3, 0.5)
    assert (meta["reports"], meta["with_text"], meta["without_text"]) == (6, 4, 2)
    assert (meta["sentences"], meta["distinct_sentences"]) == (8, 4)
    assert meta["tokens"] == sum(r.n_tokens for r in rows)
    assert meta["rejected"] == summary.rejected == 0
    assert meta["fitted"] is False
    assert meta["from_cache"] == 0
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["scores.sqlite", f"sentences.{ending}", f"sentences.{ending}.meta.json"]


def test_a_pasted_table_is_set_aside_and_listed(
    score: Score, reports: Path, tmp_path: Path
) -> None:
    reports.write_text("study_id,report\ns1,No pneumothorax.\ns2," + "a1 " * 300 + "\n")
    summary = score()
    assert (summary.rejected, summary.sentences) == (1, 1)
    assert not (tmp_path / "out.csv.partial").exists()
    listed = (tmp_path / "out.csv.rejected.csv").read_text()
    assert "study s2, report 0" in listed
    assert "a1" not in listed
    with pytest.raises(DataError, match="--max-rejected 0"):
        score(max_rejected=0)


@pytest.mark.parametrize(
    "options",
    [{"a": 1.0}, {"a": 0.0}, {"k": -1.0}, {"k": math.inf}, {"k": math.nan}, {"sections": ["find"]}],
)
def test_wrong_options_are_refused_before_the_work(
    score: Score, tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        score(model=tmp_path / "no", **options)
