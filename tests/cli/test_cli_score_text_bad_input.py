"""What ``cxrtext score-text`` does with input that is wrong: one clear line, and no report text."""

from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

from cxrtext.records import Sentence, read_sentences
from tests.cli.conftest import Refused, cxrtext
from tests.conftest import read_csv

Scored = Callable[..., tuple[list[Sentence], list[tuple[str, str]], str]]

CANARY = "Zebulon"
"""Stands in the text of every report that is wrong; it may be in no message."""


@pytest.fixture
def scored(language_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Scored:
    """Scores a table; gives its sentences, what was rejected, and what was said."""

    def run(content: bytes, *options: str) -> tuple[list[Sentence], list[tuple[str, str]], str]:
        path, out = tmp_path / "reports.csv", tmp_path / "out.csv"
        path.write_bytes(content)
        done = cxrtext(
            "score-text", path, "--model", language_model, "--out", out, "--device", "cpu", *options
        )
        listed: list[tuple[str, str]] = []
        rejected = tmp_path / "out.csv.rejected.csv"
        if rejected.exists():
            listed = [(row["item"], row["reason"]) for row in read_csv(rejected)]
            assert f"rejected: {len(listed)}, in {rejected}" in done.stdout
        assert "Traceback" not in done.stderr
        for text in (done.stdout, done.stderr, caplog.text, str(listed)):
            assert CANARY not in text
        for path in (tmp_path / "scores.sqlite", tmp_path / "out.csv.meta.json"):
            assert CANARY.encode() not in path.read_bytes()
        return read_sentences(out), listed, done.stdout

    return run


def texts(rows: list[Sentence]) -> list[tuple[str, str]]:
    return [(row.study_id, row.sentence) for row in rows]


def test_broken_rows_are_set_aside_and_the_rest_is_scored(scored: Scored) -> None:
    rows, listed, _ = scored(
        b"study_id,report\ns1,Clear.\ns3,Normal.\ns4,Zebulon, here.\n"
        b",Zebulon has no id.\ns5,Done.\n"
    )
    assert texts(rows) == [("s1", "Clear."), ("s3", "Normal."), ("s5", "Done.")]
    assert [item for item, _ in listed] == ["row 3", "row 4"]


LONGEST = "cxrtext.language.scoring.reports.MAX_PIECES"


def test_a_report_of_twenty_thousand_words_is_scored_in_parts(
    scored: Scored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LONGEST, 900)
    long = b"The lungs are clear " * 5000
    rows, listed, _ = scored(b"study_id,report\ns1," + long + b"\ns2,Clear.\n")
    words = " ".join(row.sentence for row in rows if row.study_id == "s1").split()
    assert words == long.decode().split()
    assert ("s2", "Clear.") in texts(rows)
    assert listed == []


def test_a_long_report_of_unknown_words_is_set_aside(
    scored: Scored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LONGEST, 100)
    long = b"Zebulon " * 20_000
    rows, listed, _ = scored(
        b"study_id,report\ns1," + long + b"\ns2,Clear.\n", "--max-rejected", "1000"
    )
    assert texts(rows) == [("s2", "Clear.")]
    assert len(listed) > 100
    assert {item.split(",")[0] for item, _ in listed} == {"study s1"}
    assert all("word pieces, where a sentence has 1 to 100" in why for _, why in listed)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--precision", "float16"], "float16 is only for GPUs"),
        (
            ["--cache", "reports.csv"],
            "reports.csv: is damaged (file is not a database); if it is a cache",
        ),
    ],
)
def test_a_wrong_option_is_one_line_and_leaves_nothing(
    refused: Refused, language_model: Path, tmp_path: Path, options: list[str], says: str
) -> None:
    path = tmp_path / "reports.csv"
    path.write_text("study_id,report\ns1,Zebulon is well.\n")
    with chdir(tmp_path):
        line = refused("score-text", path, "--model", language_model, "--device", "cpu", *options)
    assert says in line
    assert CANARY not in line
    assert [p.name for p in tmp_path.iterdir()] == ["reports.csv"]
    assert path.read_text().endswith("Zebulon is well.\n")
