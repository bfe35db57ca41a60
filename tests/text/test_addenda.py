"""Addenda and corrections beat what they contradict."""

import pytest

from cxrtext.records import Study
from cxrtext.text import study_sentences
from cxrtext.text.labelling import label_report


@pytest.mark.parametrize(
    ("addendum", "sentences"),
    [
        ("There is a small right pneumothorax.", ["Left effusion.", "No edema.", "+"]),
        ("Right effusion.", ["No pneumothorax.", "No edema.", "+"]),
        ("No effusion.", ["No pneumothorax.", "No edema.", "+"]),
        ("This should read right effusion, not left.", ["No pneumothorax.", "No edema.", "+"]),
        ("This should read right, not left.", ["No pneumothorax.", "No edema."]),
        ("The statement of an effusion was an error.", ["No pneumothorax.", "No edema."]),
        ("Discussed with Dr. ___.", ["No pneumothorax.", "Left effusion.", "No edema.", "+"]),
    ],
)
@pytest.mark.parametrize(
    "heading", ["ADDENDUM:", "*** ADDENDUM #2 (Dr. ___) ***", "CORRECTION 1/2/2020 10:30:"]
)
def test_what_an_addendum_leaves(heading: str, addendum: str, sentences: list[str]) -> None:
    report = f"FINDINGS: No pneumothorax. Left effusion. No edema.\n\n{heading}\n{addendum}"
    found = [one.sentence for one in study_sentences(Study("s", report))]
    assert sorted(found) == sorted(addendum if one == "+" else one for one in sentences)


@pytest.mark.parametrize(
    "report",
    [
        "ORIGINAL REPORT (1/2/2020) - IN ERROR\nFINDINGS: {}\n\nCORRECTED REPORT\nFINDINGS: {}",
        "AMENDED FINDINGS: {1}\n\n--- PREVIOUS VERSION (DO NOT USE) ---\nFINDINGS: {0}",
        "FINDINGS: {}\nATTENDING READ: {} Otherwise agree.",
    ],
)
def test_the_last_word_counts(report: str) -> None:
    found = study_sentences(Study("s", report.format("Effusion.", "No effusion.")))
    assert label_report(one.sentence for one in found)["Pleural Effusion"].value == 0


def test_a_correction_says_what_is_right_alone() -> None:
    label = label_report(["The report said left effusion; this should read right effusion."])
    assert label["Pleural Effusion"][:2] == (1, "right")


def test_sections_of_an_addendum_belong_to_it() -> None:
    report = "FINDINGS: No edema.\n\nADDENDUM:\nIMPRESSION: Edema.\n\nEND OF ADDENDUM"
    assert [one.section for one in study_sentences(Study("s", report))] == ["addendum"]
    first = "ADDENDUM: Right effusion.\nORIGINAL REPORT: Left effusion. No edema."
    found = [one.sentence for one in study_sentences(Study("s", first))]
    assert found == ["Right effusion.", "No edema."]
    chosen = study_sentences(Study("s", report), ["findings"])
    assert chosen == []
