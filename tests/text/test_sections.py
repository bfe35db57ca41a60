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
        ("FINDINGS:", "findings"), ("Findings :", "findings"), ("findings:", "findings"),
        ("IMPRESSION:", "impression"), ("Conclusion:", "conclusion"),
        ("CLINICAL HISTORY:", "history"), ("HISTORY:", "history"),
        ("REASON FOR EXAM:", "indication"),
        ("FINDINGS AND IMPRESSION:", "findings and impression"),
        ("Findings/Impression:", "findings and impression"), ("COMPARISONS:", "comparison"),
        ("PORTABLE AP CHEST:", "findings"), ("PA AND LATERAL VIEWS OF THE CHEST:", "findings"),
        ("IMPRESSION\n", "impression"), ("WET READ:", "wet read"),
        ("NOTIFICATION:", "notification"), ("RECOMMENDATION(S):", "recommendation"),
        ("CONCLUSION:", "conclusion"),
        ("FINDINGS &amp; IMPRESSION:", "findings and impression"), ("ADDENDUM:", "addendum"),
        ("ADDENDUM #2:", "addendum"), ("FINAL ADDENDUM\n", "addendum"),
        ("CHEST, PA AND LATERAL, ___:", "findings"), ("REASON FOR CHEST X-RAY:", "indication"),
        ("**Findings:**", "findings"), ("## Impression\n", "impression"),
        ("IMPRESSION -", "impression"), ("IMPRESSION", "impression"),
        ("Impression\n", "impression"), ("\ufeffFINDINGS:", "findings"),
        ("\x0cFINDINGS:", "findings"), ("\tFINDINGS\t:", "findings"), ("REPORT:", "report"),
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
        ("Lungs clear. Impression: Normal.", {"report": "Lungs clear.", "impression": "Normal."}),
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
    "blank lines do not end the findings": (
        "FINDINGS:\n\nClear.\n\nNo effusion.", {"findings": "Clear.\n\nNo effusion."}
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
        "1. FINDINGS: Clear.\n2. IMPRESSION: Normal.",
        "1) Findings: Clear.\n2) Impression: Normal.",
        "FINDINGS- Clear.\nIMPRESSION- Normal.",
        "FINDINGS:Clear.IMPRESSION:Normal.",
        "Findings:Clear.Impression: Normal.",
        "FINDING(S): Clear.\nIMPRESSION(S): Normal.",
        "FINDINGS\xa0\nClear.\nIMPRESSION\xa0\nNormal.",
    ],
)
def test_headings_as_other_systems_write_them(report: str) -> None:
    assert split_sections(report) == [("findings", "Clear."), ("impression", "Normal.")]


@pytest.mark.parametrize(
    "text",
    [
        "Seen by e.g.Findings of old.", "A follow-up study- or film is due.", "2. Clear: yes.",
        "NO FINDINGS OF EDEMA. CHEST IS CLEAR.", "NO ACUTE CHEST DISEASE",
        "Edema is one of the\nfindings\nin this study.", "The findings: an opacity.",
        "The lungs are clear.\n\nNo effusion.\n\nNormal chest.",
        "Correlate with history: none is given.", "Impression of the ribs is normal.",
        "The study was compared with ___ at 4:15.",
    ],
)  # fmt: skip
def test_what_looks_like_a_heading_and_is_none(text: str) -> None:
    assert split_sections(text) == [("report", text)]
