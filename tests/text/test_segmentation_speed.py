"""No text of 20,000 characters takes a second of one processor."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cxrtext.text import split_sections, split_sentences
from cxrtext.text.boundaries import CURED_PATTERN, ORIGINAL_PATTERN

LENGTH = 20_000
SECONDS = 1.0
UNITS = [
    "111 ",
    "1. ",
    "1. A 2. B ",
    "2. A",
    "a. ",
    "a.. ",
    "i. ",
    "xii. ",
    "(a) ",
    "a.) ",
    "a.b.c.",
    "No. 1",
    "[1] ",
    "[1,2] ",
    "[1-",
    ".[1",
    ".1 A",
    "a\n",
    "\n",
    "\n \n",
    "\n1. ",
    "\n- ",
    "\nAb cd\n",
    " ",
    "\t",
    "\x00",
    "\u2028",
    "U.S. ",
    "Dr. ",
    "R. The ",
    "a.The ",
    "( A. The ",
    '"a ',
    "'a ",
    "“a ",
    '" (',
    ') "',
    "((",
    "[",
    "[<",
    ">]",
    "[<1",
    "[**",
    "-- ",
    "...",
    ". . . ",
    "…",
    "!",
    "?!",
    "? ",
    "A",
    "XXXX",
    "XXXX. ",
    "___ ",
    "_____\n",
    "FINDINGS: ",
    "findings ",
    "IMPRESSION ",
    "IMPRESSION\n",
    "Impression\n\n",
    "ADDENDUM # 1",
    "FINAL REPORT\n",
    "CHEST ",
    "CHEST VIEW\n",
    "PA AND LATERAL ",
    "PORTABLE CHEST, ",
    "reason for ",
    "signed by ",
    "* ",
    "#",
    "&lt;",
    "&amp;",
    "&#",
    "\\",
    "♨",
    "☝\n \n",
]


def seconds(attack: str) -> float:
    started = time.process_time()
    for _, body in split_sections(attack):
        split_sentences(body)
    return time.process_time() - started


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    split_sentences("Clear lungs. Normal heart.")


@pytest.mark.parametrize("unit", UNITS)
def test_no_repeated_fragment_is_slow(unit: str) -> None:
    assert seconds(("..[" + unit * LENGTH)[:LENGTH]) < SECONDS


@given(
    st.lists(st.sampled_from(UNITS), min_size=1, max_size=4).map("".join),
    st.sampled_from(["", '"', "(", "[", "1. ", "FINDINGS: "]),
    st.sampled_from(["", "x", ".", '"', ")", "\n"]),
)
@settings(max_examples=20, deadline=None)
def test_no_repeated_mixture_is_slow(unit: str, opening: str, closing: str) -> None:
    assert seconds((opening + unit * LENGTH)[: LENGTH - 1] + closing) < SECONDS


@pytest.mark.parametrize("count", [10, 200, 1000])
def test_the_known_attack_on_numbered_references_is_harmless(count: int) -> None:
    attack = "..[" + " ".join(["111"] * count) + "]"
    assert seconds(attack) < SECONDS


def test_the_pattern_that_is_replaced_is_still_the_one_that_was_examined() -> None:
    # In a process of its own, so that the library's own warnings do not matter.
    code = (
        "from pysbd.lang.common.common import Common; "
        "from pysbd.lang.english import English; "
        "assert English.NUMBERED_REFERENCE_REGEX == Common.NUMBERED_REFERENCE_REGEX; "
        "print(Common.NUMBERED_REFERENCE_REGEX, end='')"
    )
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-X", "utf8", "-c", code],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert out.stdout == ORIGINAL_PATTERN


def test_the_replacement_is_used_and_the_library_is_left_as_it_is() -> None:
    from pysbd.lang.english import English

    from cxrtext.text import boundaries

    split_sentences("Clear lungs. Normal heart.")
    assert boundaries._language().NUMBERED_REFERENCE_REGEX == CURED_PATTERN
    assert English.NUMBERED_REFERENCE_REGEX == ORIGINAL_PATTERN
    assert English.Abbreviation.ABBREVIATIONS
