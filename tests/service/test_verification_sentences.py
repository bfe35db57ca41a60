import csv
import os
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrtext.errors import InputError
from cxrtext.service.limits import MAX_REPORT_CHARACTERS, MAX_REPORT_SENTENCES
from cxrtext.service.verify.sentences import report_sentences
from cxrtext.text.layout import plain_text

REPORT = """INDICATION: Cough. Rule out pneumonia.

FINDINGS: There is a small left
pleural effusion.  The heart is normal.

IMPRESSION:
1. Small effusion.
2. No pneumothorax.
"""


def _letters(text: str) -> str:
    return "".join(text.split())


def test_the_places_of_a_report() -> None:
    found = report_sentences(REPORT)
    assert [(s.section, s.sentence, REPORT[s.start : s.end]) for s in found] == [
        ("findings", "There is a small left pleural effusion.",
         "There is a small left\npleural effusion."),
        ("findings", "The heart is normal.", "The heart is normal."),
        ("impression", "Small effusion.", "Small effusion."),
        ("impression", "No pneumothorax.", "No pneumothorax."),
    ]  # fmt: skip


def test_line_breaks_of_two_characters_count_as_two() -> None:
    report = REPORT.replace("\n", "\r\n")
    found = report_sentences(report)
    assert [_letters(report[s.start : s.end]) for s in found] == [
        _letters(s.sentence) for s in report_sentences(REPORT)
    ]


def test_references_and_marks_are_inside_the_places() -> None:
    report = "FINDINGS: Effusion &gt; 5 cm &amp; [<edema>] is seen.The heart is normal."
    first, second = report_sentences(report)
    assert report[first.start : first.end].startswith("Effusion &gt;")
    assert first.sentence == "Effusion > 5 cm & edema is seen."
    assert report[second.start : second.end] == second.sentence == "The heart is normal."


def test_places_are_those_of_markup_and_of_tables() -> None:
    report = "<p>FINDINGS:</p>Pneumothorax | absent<br/>Heart: <b>enlarged</b>"
    first, second = report_sentences(report)
    assert (first.sentence, second.sentence) == ("Pneumothorax: absent", "Heart: enlarged")
    assert report[first.start : first.end] == "Pneumothorax | absent"
    assert report[second.start : second.end].startswith("Heart: <b>enlarged")


def test_what_an_addendum_takes_back_is_not_verified() -> None:
    report = "FINDINGS: No pneumothorax. No edema.\n\nADDENDUM: There is a pneumothorax."
    assert [s.sentence for s in report_sentences(report)] == [
        "No edema.",
        "There is a pneumothorax.",
    ]


def test_text_without_headings_counts_unless_there_are_findings() -> None:
    assert [s.section for s in report_sentences("No edema. Normal heart.")] == ["report"] * 2
    both = "General Hospital of somewhere.\n\nFINDINGS: No edema."
    assert [s.sentence for s in report_sentences(both)] == ["No edema."]
    bare = "There is a small effusion.\n\nIMPRESSION: Small effusion."
    assert [s.section for s in report_sentences(bare)] == ["report", "impression"]


@pytest.mark.parametrize(
    ("report", "says"),
    [
        ("", "no sentence"),
        ("INDICATION: Cough.", "no sentence"),
        ("FINDINGS: ___", "no sentence"),
        ("x" * (MAX_REPORT_CHARACTERS + 1), "20001 characters"),
        ("No edema. " * (MAX_REPORT_SENTENCES + 1), "257 sentences"),
    ],
)
def test_what_is_refused(report: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as raised:
        report_sentences(report)
    assert "Cough" not in str(raised.value)


def test_a_row_of_a_form_is_marked_whole() -> None:
    report = "Edema | absent\nPneumothorax ..... Absent\n<td>Effusion</td><td>No &amp; none</td>"
    marked = [report[one.start : one.end] for one in report_sentences(report)]
    assert marked[:2] == ["Edema | absent", "Pneumothorax ..... Absent"]
    assert marked[2].startswith("Effusion</td><td>No &amp; none")


FRAGMENTS = st.sampled_from(
    ["FINDINGS: ", "IMPRESSION:", "No edema. ", "The heart is normal.", "&gt;", "&amp;lt;",
     "&#13;&#10;", "&notit;", "[<", ">]", "\r\n", "\n\n", "\r", "1. ", " 2) ", "\x00", "\ufeff",
     "..", "Dr. A", "å", "___", "\u2028", "- ", "e.g. ", "3.5 cm"]
)  # fmt: skip
_MARKS = {ord(c): None for c in "[<>]:"}


@given(st.lists(FRAGMENTS, max_size=30).map("".join))
def test_places_are_exact_in_any_text(report: str) -> None:
    try:
        found = report_sentences(report)
    except InputError:
        return
    done = 0
    for one in found:
        assert done <= one.start < one.end <= len(report)
        kept = _letters(plain_text(report[one.start : one.end]).text)
        # Half a field mark may be cut away from the other half; alone, a sentence with a control
        # character may read as a row of a form, which gets a colon.
        assert kept.translate(_MARKS) == _letters(one.sentence).translate(_MARKS)
        done = one.end


@pytest.mark.data
@pytest.mark.skipif("CXRTEXT_TEST_DATA" not in os.environ, reason="CXRTEXT_TEST_DATA is not set")
@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_places_are_exact_in_real_reports(one_in: int) -> None:
    folder = Path(os.environ["CXRTEXT_TEST_DATA"])
    checked = 0
    with (folder / "reports/reports.csv").open(newline="", encoding="utf-8") as handle:
        for row in islice(csv.DictReader(handle), 0, None, one_in):
            report = (
                f"INDICATION: {row['indication']}\r\n\r\nFINDINGS: {row['findings']}\r\n\r\n"
                f"IMPRESSION:\r\n1. {row['impression']}"
            )
            try:
                found = report_sentences(report)
            except InputError:
                assert not row["findings"].strip(" X_") or not row["impression"].strip(" X_")
                continue
            for one in found:
                checked += 1
                text = _letters(plain_text(report[one.start : one.end]).text)
                assert text == _letters(one.sentence), row["study_id"]
    assert checked > 10_000 / one_in
