"""The sections of chest X-ray reports and the names that open them."""

HEADLESS = "report"  # the section of text that no heading opens

_ALIASES = {
    "findings": "findings | finding",
    "impression": (
        "impression | impressions | final impression | impression and recommendation | "
        "impression and recommendations | summary | opinion"
    ),
    "conclusion": "conclusion | conclusions",
    "findings and impression": (
        "findings and impression | findings and impressions | findings & impression | "
        "findings &amp; impression | findings/impression | findings / impression | "
        "finding/impression | impression and findings | impression/findings"
    ),
    "indication": (
        "indication | indications | clinical indication | clinical indications | clinical "
        "information | clinical details | clinical data | reason for exam | reason for "
        "examination | reason for study | reason for the exam | reason for this exam | reason "
        "for this examination"
    ),
    "history": (
        "history | clinical history | medical history | patient history | history and "
        "indication | history/indication"
    ),
    "comparison": (
        "comparison | comparisons | comparison study | comparison studies | comparison exam | "
        "comparison exams | comparison film | comparison films | prior studies"
    ),
    "technique": "technique | procedure | views",
    "examination": (
        "examination | exam | type of examination | type of exam | type of study | study"
    ),
    "recommendation": "recommendation | recommendations | recommendation(s)",
    "notification": "notification | notifications | communication",
    "wet read": (
        "wet read | wet read version | wet read audit | preliminary read | preliminary report"
    ),
    "addendum": "addendum | final addendum",
}
REPORT_NAMES = ("report", "radiology report", "final report")
"""Headings that open the report itself, and so no section of their own."""

SECTIONS = (HEADLESS, *_ALIASES)  # every section name that a report is divided into

ADMINISTRATIVE = frozenset({"indication", "history", "comparison", "technique", "examination"})
"""Sections of one paragraph: text after a blank line in them belongs to no heading."""

ALIASES_TO_SECTIONS = {
    alias: name for name, aliases in _ALIASES.items() for alias in aliases.split(" | ")
}
ALIASES_TO_SECTIONS |= dict.fromkeys(REPORT_NAMES, HEADLESS)
"""The section of each heading, in small letters with single spaces."""


def canonical(heading: str) -> str | None:
    """Return the section that a heading opens, or None where it is no known heading."""
    return ALIASES_TO_SECTIONS.get(" ".join(heading.lower().split()))
