"""The headings that stand in chest X-ray reports, and the section each one opens."""

import re

HEADLESS = "report"
"""The section of text that no heading opens."""

_ALIASES = {
    "findings": ("findings", "finding"),
    "impression": ("impression", "impressions", "summary"),
    "conclusion": ("conclusion", "conclusions"),
    "findings and impression": (
        "findings and impression",
        "findings and impressions",
        "findings & impression",
        "findings/impression",
        "findings / impression",
        "impression and findings",
    ),
    "indication": (
        "indication",
        "indications",
        "clinical indication",
        "clinical indications",
        "clinical information",
        "reason for exam",
        "reason for examination",
        "reason for study",
        "reason for this examination",
    ),
    "history": ("history", "clinical history", "medical history", "patient history"),
    "comparison": ("comparison", "comparisons", "comparison study", "comparison studies"),
    "technique": ("technique", "procedure", "views"),
    "examination": ("examination", "exam", "type of examination", "type of exam", "study"),
    "recommendation": ("recommendation", "recommendations"),
    "notification": ("notification", "notifications"),
    "wet read": ("wet read", "preliminary read", "preliminary report"),
    "addendum": ("addendum",),
}

SECTIONS = (HEADLESS, *_ALIASES)
"""Every section name that a report is divided into."""

ADMINISTRATIVE = frozenset({"indication", "history", "comparison", "technique", "examination"})
"""Sections of one paragraph: text after a blank line in them belongs to no heading."""

_CANONICAL = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}

_WORDS = "|".join(
    r"\s+".join(re.escape(word) for word in alias.split())
    for alias in sorted(_CANONICAL, key=len, reverse=True)
)

# At the start of a line any case will do.
_LINE_HEADING = rf"^[ \t]*(?P<line>(?i:{_WORDS}))[ \t]*:"
# A line of its own needs no colon when it is in capitals.
_BARE_HEADING = rf"^[ \t]*(?P<bare>(?=[A-Z])(?i:{_WORDS})(?<=[A-Z]))[ \t]*$"
# Inside a line: in capitals after a space, or capitalised after the end of a sentence.
_CAPITALS = rf"(?<=\s)(?P<capitals>(?=[A-Z]{{2}})(?i:{_WORDS})(?<=[A-Z])):"
_AFTER_STOP = rf"(?<=[.!?;]\s)(?P<stop>(?=[A-Z])(?i:{_WORDS})):"
# "PORTABLE AP CHEST:", "PA AND LATERAL VIEWS OF THE CHEST:" open findings.
_VIEW_HEADING = (
    r"^[ \t]*(?P<view>(?=[A-Z ,/&()-]{0,60}(?:CHEST|RADIOGRAPH|VIEW))[A-Z][A-Z ,/&()-]{4,80}):"
)
_HEADING = re.compile(
    "|".join((_LINE_HEADING, _BARE_HEADING, _CAPITALS, _AFTER_STOP, _VIEW_HEADING)), re.MULTILINE
)


def canonical(heading: str) -> str | None:
    """Return the section that a heading opens, or None where it is no known heading."""
    return _CANONICAL.get(" ".join(heading.lower().split()))


def find_headings(text: str) -> list[tuple[int, int, str]]:
    """Find the headings of a report.

    Args:
        text: The report.

    Returns:
        ``(start, end, section)`` of each heading, colon included, in order of place.
    """
    found = []
    for match in _HEADING.finditer(text):
        if match.lastgroup == "view":
            section: str | None = "findings"
        else:
            section = canonical(match[match.lastgroup or 0])
        # A bare line such as "Findings" in mixed case is text; the pattern's (?i:) lets it by.
        if match.lastgroup in ("bare", "capitals") and not match[match.lastgroup].isupper():
            continue
        if section is not None:
            found.append((match.start(), match.end(), section))
    return found
