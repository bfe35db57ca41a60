"""Typed queries in the wording of the training reports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrtext.text.rewording import CLEARLY, edits, reworded
from cxrtext.text.wording import wording

_WORDS = """
    no pneumothorax pleural effusion consolidation pneumonia left right lower lobe tube
    endotracheal enlarged heart cardiomegaly a large bilateral opacity of the with without normal
    hyperinflation pulmonary lungs are clear
"""
WORDS = _WORDS.split()


def said(word: str) -> int:
    return 50 if word in WORDS else 0


def read(sentence: str) -> str:
    return reworded(sentence, said, WORDS)


@pytest.mark.parametrize(
    ("typed", "as_read"),
    [
        ("Consolidation absent.", "No consolidation."),
        ("Pneumothorax is ruled out", "No pneumothorax."),
        ("The previously seen effusion is no longer seen.", "No effusion."),
        ("Left effusion not identified today.", "No left effusion."),
        ("Consolidation and effusion absent.", "No consolidation or effusion."),
    ],
)
def test_a_denial_after_the_noun_comes_before_it(typed: str, as_read: str) -> None:
    assert reworded(typed) == read(typed) == as_read
    assert wording(as_read) == "negated"


@pytest.mark.parametrize(
    "sentence",
    [
        "No pneumothorax.",
        "Pneumothorax has not resolved.",
        "Pneumothorax cannot be excluded",
        "Possible effusion.",  # no misspelling of "possibly"
        "Small effusion, pneumothorax absent",
        "Large effusion with pneumothorax absent.",
        "None.",
        "Tube  in the right lobe",
        "asdf qwerty",
    ],
)
def test_what_cannot_be_read_stays(sentence: str) -> None:
    assert reworded(sentence) == reworded(sentence, said, [*WORDS, "possibly"]) == sentence


@pytest.mark.parametrize(
    ("typed", "as_read"),
    [
        ("ptx excluded", "No pneumothorax."),
        ("b/l effusions", "Bilateral effusion"),
        ("L effusion w/PNA", "Left effusion with pneumonia"),
        ("Opacity w/o PTX.", "Opacity without pneumothorax."),
        ("ETT 3 cm above", "Endotracheal tube 3 cm above"),
        ("CM", "Cardiomegaly"),
        ("5 CM opacity", "5 CM opacity"),
        ("NGT", "NGT"),  # what it stands for is not known
    ],
)
def test_abbreviations(typed: str, as_read: str) -> None:
    assert read(typed) == as_read
    assert read(as_read) == as_read


@pytest.mark.parametrize(
    ("typed", "as_read"),
    [
        ("Left-sided effusion", "Left effusion"),
        ("Opacity in the left hemithorax.", "Left opacity."),
        ("No effusion on the left side.", "No left effusion."),
        ("Effusion absent on the left", "No left effusion."),
        ("Effusions on both sides", "Bilateral effusion"),
        ("Left opacity, more on the right.", "Left opacity, more on the right."),
    ],
)
def test_sides(typed: str, as_read: str) -> None:
    assert reworded(typed, said, [*WORDS, "absent"]) == as_read


def test_a_corpus_keeps_the_words_that_it_uses() -> None:
    own = {*WORDS, "ptx", "sided", "on", "effussion"}
    for sentence in ("PTX", "Left-sided effusion.", "Effusion on the left.", "Effussion."):
        assert reworded(sentence, lambda word: int(word in own), WORDS) == sentence
    assert reworded("Effusion absent.", lambda word: int(word == "effusion")) == "Effusion absent."


@pytest.mark.parametrize(
    ("typed", "as_read"),
    [
        ("pnuemothroax", "Pneumothorax"),
        ("Cardiomegally and consolodation", "Cardiomegaly and consolidation"),
        ("efusoin", "efusoin"),  # two slips want eight letters
        ("hypoinflation", "hypoinflation"),
        ("Lungs cleer", "Lungs clear"),
    ],
)
def test_spelling(typed: str, as_read: str) -> None:
    assert read(typed) == as_read


def test_of_two_near_words_one_is_taken_only_where_it_is_far_more_frequent() -> None:
    near = {"nodule": CLEARLY, "nodula": 1}
    assert reworded("nodulx", lambda word: near.get(word, 0), near) == "Nodule"
    near["nodula"] = 2
    assert reworded("nodulx", lambda word: near.get(word, 0), near) == "nodulx"
    assert reworded("nodule", lambda _: 0, near) == "nodule"


def test_a_word_of_the_vocabulary_that_no_report_uses_is_spelled_right() -> None:
    assert reworded("effusioned", said, WORDS) == "Effusion"
    assert reworded("effusioned", said, [*WORDS, "effusioned"]) == "effusioned"


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_edits_are_the_fewest(one: str, other: str) -> None:
    """As defined on prefixes, a plain recursion."""

    def fewest(i: int, j: int) -> int:
        if min(i, j) == 0:
            return max(i, j)
        found = [
            fewest(i - 1, j) + 1,
            fewest(i, j - 1) + 1,
            fewest(i - 1, j - 1) + (one[i - 1] != other[j - 1]),
        ]
        if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
            found.append(fewest(i - 2, j - 2) + 1)
        return min(found)

    assert edits(one, other) == edits(other, one) == fewest(len(one), len(other))
