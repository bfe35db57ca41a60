"""No character is lost or altered, whatever the text; and no text takes long."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cxrtext.text import SECTIONS, boundaries, split_sections, split_sentences
from cxrtext.text.boundaries import CHUNK_LIMIT, segment
from cxrtext.text.layout import plain_text
from cxrtext.text.sections import divide_report, find_headings
from cxrtext.text.sentences import divide

# What reports are made of, what PySBD marks its own places with, and what once broke it.
FRAGMENTS = [
    "The lungs are clear. ", "No effusion", "heart normal", "FINDINGS: ", "Impression: ",
    "IMPRESSION\n", "WET READ: ___ 10:38 AM", "FINAL REPORT", "ADDENDUM #1:",
    "CHEST RADIOGRAPH PERFORMED ON ___", "PA AND LATERAL VIEWS OF THE CHEST:",
    "________________", "COMPARISON: ___.", "Dr. Smith", "approx. 3.5 cm. ", "2.3 x 1.5 cm. ",
    "T12.", "a.m. ", "No. 3 ", "e.g. ", "R. lung", "? ", "...", "..", ". . . ", "1. ", "2.",
    "2) ", "(3) ", "- ", "• ", "\n", "\n\n", "\r\n", "\r", "\t", " ", "\x00", "\x0c", "\x1f",
    "\x85", "\x9f", "\u2028", "\u2029", "\ufeff", "\xa0", "XXXX", "XXXX. ", "[**name**]", "[<",
    ">]", "[&lt;", "&gt;]", "&amp;", "&amp;lt;", "&#10;", '"', "'", "“", "”", "(", ")", "[",
    "]", "[111 111]", ".1 A", "!", "!!", "?!", "∯", "ȸ", "ȹ", "♨", "☝", "☏☏", "ƪƪƪ", "∮", "&ᓴ&",
    "&⎋&", "。", "é", "𝒳",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join),
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=20).map("".join),
    st.text(max_size=200),
)
ANY_NUMBER = settings(max_examples=300, deadline=None)


def visible(text: str) -> str:
    return "".join(
        c
        for c in text
        if not c.isspace() and unicodedata.category(c) != "Cc" and c not in "\u200b\ufeff"
    )


@given(TEXTS)
@ANY_NUMBER
def test_sentences_and_what_is_dropped_are_the_text(text: str) -> None:
    """Only marks and text without a letter are dropped; no line break reaches a sentence."""
    plain = plain_text(text).text
    pieces = list(divide(plain))
    assert "".join(visible(piece.text) for piece in pieces) == visible(plain)
    sentences = split_sentences(text)
    assert sentences == [piece.text for piece in pieces if piece.kept]
    for piece in pieces:
        if not piece.kept:
            letters = "".join(c for c in piece.text if c.isalpha() and c != "X")
            assert letters == "" or "[**" in piece.text
    for sentence in sentences:
        assert sentence == " ".join(sentence.split()) != ""
        assert all(unicodedata.category(c) not in ("Cc", "Zl", "Zp") for c in sentence)


@given(TEXTS)
@ANY_NUMBER
def test_each_character_of_a_plain_text_has_a_place(text: str) -> None:
    plain, places = plain_text(text)
    assert len(places) == len(plain) + 1
    assert list(places) == sorted(places)
    assert places[-1] == len(text)
    assert all(0 <= place <= len(text) for place in places)


@given(TEXTS)
@ANY_NUMBER
def test_sections_and_headings_are_the_report(text: str) -> None:
    """Only headings and printed lines are dropped."""
    plain = plain_text(text).text
    parts = list(divide_report(plain))
    assert "".join(part.text for part in parts) == plain
    kept = [(one.section, one.text.strip()) for one in parts if one.section and one.text.strip()]
    assert split_sections(text) == kept
    assert {section for section, _ in kept} <= set(SECTIONS)
    headings = find_headings(plain)
    places = {(heading.start, heading.end) for heading in headings}
    done = 0
    for part in parts:
        if part.section is None:
            assert (done, done + len(part.text)) in places
        done += len(part.text)


@given(TEXTS.map(lambda text: " ".join(text.split())))
@ANY_NUMBER
def test_a_paragraph_is_cut_and_not_rewritten(paragraph: str) -> None:
    sentences = segment(paragraph)
    assert visible("".join(sentences)) == visible(paragraph)
    assert all(0 < len(sentence) <= CHUNK_LIMIT or " " not in sentence for sentence in sentences)


def test_a_word_is_never_cut() -> None:
    word = "x" * (5 * CHUNK_LIMIT)
    assert segment(word) == [word]
    found = segment(f"The lungs are clear. {word} No effusion.")
    assert found == ["The lungs are clear.", word, "No effusion."]
    dotted = "a.B" * CHUNK_LIMIT
    assert segment(f"{dotted} {dotted}.") == [dotted, f"{dotted}."]


@pytest.mark.parametrize(
    "garbled",
    [
        ["The lungs are clear."], ["The lungs are clear.", "No effusion.", "No effusion."],
        ["", "x"], [],
    ],
)  # fmt: skip
def test_where_pysbd_garbles_a_text_it_is_cut_at_its_plain_ends(
    garbled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boundaries, "_sentences", lambda _: garbled)
    found = segment("The lungs are clear. No effusion. Stable tube.")
    assert found == ["The lungs are clear.", "No effusion.", "Stable tube."]


LENGTH = 20_000
SECONDS = 1.0
UNITS = [
    "111 ", "1. A 2. B ", "a.. ", "xii. ", "(a) ", "a.b.c.", "No. 1", "[1,2] ", "[1-", ".1 A",
    "\n", "\n \n", "\n1. ", "\nAb cd\n", " ", "\x00", "\u2028", "Dr. ", "a.The ", "( A. The ",
    '"a ', '" (', "((", "[<", "[<1", "[**", "...", ". . . ", "?! ", "A", "XXXX. ", "_____\n",
    "FINDINGS: ", "findings ", "IMPRESSION\n", "ADDENDUM # 1", "FINAL REPORT\n", "CHEST VIEW\n",
    "PA AND LATERAL ", "PORTABLE CHEST, ", "signed by ", "&lt;", "&#", "\\", "☝\n \n",
    "|", "a | b\n", "\t", "[x] a ", "<p ", "<!--", "**a", "a: no, ",
]  # fmt: skip


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
