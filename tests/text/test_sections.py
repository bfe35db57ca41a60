import pytest

from cxrtext.text import split_sections

MIMIC_STYLE = """                                 FINAL REPORT
 EXAMINATION:  CHEST (PA AND LAT)

 INDICATION:  ___ year old woman with cough  // pneumonia?

 TECHNIQUE:  Chest PA and lateral

 COMPARISON:  ___.

 FINDINGS:

 The lungs are clear.  There is no pleural effusion or
 pneumothorax.

 IMPRESSION:

 No acute cardiopulmonary process.
"""


def test_a_mimic_report_is_divided_at_its_headings_whatever_ends_its_lines() -> None:
    assert split_sections(MIMIC_STYLE) == [
        ("examination", "CHEST (PA AND LAT)"),
        ("indication", "___ year old woman with cough  // pneumonia?"),
        ("technique", "Chest PA and lateral"),
        ("comparison", "___."),
        ("findings", "The lungs are clear.  There is no pleural effusion or\n pneumothorax."),
        ("impression", "No acute cardiopulmonary process."),
    ]
    assert split_sections(MIMIC_STYLE.replace("\n", "\r\n")) == split_sections(MIMIC_STYLE)


@pytest.mark.parametrize(
    ("heading", "section"),
    [
        ("Findings :", "findings"), ("findings:", "findings"), ("Conclusion:", "conclusion"),
        ("CLINICAL HISTORY:", "history"), ("REASON FOR CHEST X-RAY:", "indication"),
        ("Findings/Impression:", "findings and impression"), ("COMPARISONS:", "comparison"),
        ("PA AND LATERAL VIEWS OF THE CHEST:", "findings"), ("WET READ:", "wet read"),
        ("RECOMMENDATION(S):", "recommendation"), ("ADDENDUM #2:", "addendum"),
        ("FINDINGS &amp; IMPRESSION:", "findings and impression"),
        ("CHEST, PA AND LATERAL, ___:", "findings"), ("**Findings:**", "findings"),
        ("## Impression\n", "impression"), ("IMPRESSION -", "impression"),
        ("IMPRESSION", "impression"), ("\ufeffFINDINGS:", "findings"),
        ("\tFINDINGS\t:", "findings"), ("REPORT:", "report"),
    ],
)  # fmt: skip
def test_headings_at_the_start_of_a_line(heading: str, section: str) -> None:
    assert split_sections(f"{heading} Heart size is normal.") == [
        (section, "Heart size is normal.")
    ]


@pytest.mark.parametrize(
    ("report", "sections"),
    [
        ("FINDINGS: Clear. IMPRESSION: Normal.", {"findings": "Clear.", "impression": "Normal."}),
        ("lungs clear. impression: normal.", {"report": "lungs clear.", "impression": "normal."}),
        ("Lungs clear. IMPRESSION Normal.", {"report": "Lungs clear.", "impression": "Normal."}),
        (
            "EXAM: CHEST (PA AND LAT) INDICATION: cough FINDINGS: Clear.",
            {"examination": "CHEST (PA AND LAT)", "indication": "cough", "findings": "Clear."},
        ),
    ],
)
def test_headings_inside_a_line(report: str, sections: dict[str, str]) -> None:
    assert split_sections(report) == list(sections.items())


CASES = {
    "findings under no heading after the comparison belong to the report": (
        "COMPARISON:  ___.\n\n Frontal views were obtained.\n\n The lungs are clear.",
        {"comparison": "___.", "report": "Frontal views were obtained.\n\n The lungs are clear."},
    ),
    "the final report ends the wet read": (
        " WET READ: ___ ___ 10:38 AM\n  No acute process.\n ______________________________\n"
        "                                 FINAL REPORT\n"
        " CHEST RADIOGRAPH PERFORMED ON ___\n\n The lungs are clear.\n",
        {
            "wet read": "___ ___ 10:38 AM\n  No acute process.",
            "examination": "CHEST RADIOGRAPH PERFORMED ON ___", "report": "The lungs are clear.",
        },
    ),
    "an addendum before the final report": (
        "FINAL ADDENDUM\n The tube was moved.\n___________\nFINAL REPORT\nFINDINGS: Clear.",
        {"addendum": "The tube was moved.", "findings": "Clear."},
    ),
    "organs inside the impression open no section": (
        "IMPRESSION:\nCHEST: No edema.\nABDOMEN: Normal.",
        {"impression": "CHEST: No edema.\nABDOMEN: Normal."},
    ),
    "text after a printed line is no longer administrative": (
        "COMPARISON: None.\n_______\nThe lungs are clear.\nElectronically signed by ___",
        {"comparison": "None.", "report": "The lungs are clear."},
    ),
    "control characters reach no section": (
        "FINDINGS:\x00Clear\x1flungs.\r\rNo\x85edema.", {"findings": "Clear lungs.\n\nNo edema."}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_where_sections_begin_and_end(case: str) -> None:
    report, sections = CASES[case]
    assert split_sections(report) == list(sections.items())


@pytest.mark.parametrize("report", ["", "   \n\n ", "FINAL REPORT", "FINDINGS:\nIMPRESSION:"])
def test_a_report_without_text_has_no_sections(report: str) -> None:
    assert split_sections(report) == []


@pytest.mark.parametrize(
    "report",
    [
        "Findings\xa0: Clear.\n\xa0Impression\xa0: Normal.",
        "FINDINGS\uff1aClear.\nIMPRESSION\uff1aNormal.",
        "1) Findings: Clear.\n2) Impression: Normal.",
        "FINDINGS- Clear.\nIMPRESSION- Normal.",
        "FINDINGS:Clear.IMPRESSION:Normal.",
        "FINDING(S): Clear.\nIMPRESSION(S): Normal.",
    ],
)
def test_headings_as_other_systems_write_them(report: str) -> None:
    assert split_sections(report) == [("findings", "Clear."), ("impression", "Normal.")]


@pytest.mark.parametrize(
    "text",
    [
        "Seen by e.g.Findings of old.", "A follow-up study- or film is due.", "2. Clear: yes.",
        "NO FINDINGS OF EDEMA. CHEST IS CLEAR.", "The findings: an opacity.",
        "Edema is one of the\nfindings\nin this study.", "Impression of the ribs is normal.",
    ],
)  # fmt: skip
def test_what_looks_like_a_heading_and_is_none(text: str) -> None:
    assert split_sections(text) == [("report", text)]
