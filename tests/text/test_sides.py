"""Which sides a sentence names, and sentences turned into what is not so."""

import csv
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from cxrtext.phantom.studies import draw_studies
from cxrtext.records import Study
from cxrtext.text.assertions import Vocabulary, words_of
from cxrtext.text.sides import false_mirrors, mirrored, other_side, side_of, sides_of
from cxrtext.text.studies import study_sentences

DATA = os.environ.get("CXRTEXT_TEST_DATA")


@pytest.mark.parametrize(
    ("sentence", "side", "other"),
    [
        ("Opacity in the RUL, on the right.", "right", "Opacity in the LUL, on the left."),
        ("Effusions, right greater than left.", "", ""),
        ("Bibasal opacity, more so on the left.", "", ""),
        # The other side has no such thing.
        ("Lingular opacity.", "left", ""),
        ("Right middle lobe collapse.", "right", ""),
        ("Opacity of the right middle zone.", "right", "Opacity of the left middle zone."),
    ],
)
def test_the_side_of_a_sentence(sentence: str, side: str, other: str) -> None:
    assert side_of(sentence) == side
    assert other_side(sentence) == other
    assert sides_of("Effusions on either side.") == {"left", "right"}


@pytest.mark.parametrize(
    ("sentence", "sided", "others"),
    [
        ("Cardiomegaly, and a left pleural effusion.", {"effusion"}, {"cardiomegaly"}),
        ("Edema is present, but the left lung has pneumonia.", {"pneumonia"}, {"edema"}),
        ("On the left, there is an effusion.", {"effusion"}, set()),
        ("Left effusion with a small pneumothorax.", {"effusion", "pneumothorax"}, set()),
    ],
)
def test_what_stands_apart_from_the_side_that_a_sentence_names(
    sentence: str, sided: set[str], others: set[str]
) -> None:
    words = words_of(sentence)
    assert sided <= words.left
    assert words.left.isdisjoint(others)
    assert not words.right
    vocabulary = Vocabulary({word: word for word in sided | others})
    there = {one.finding: one.side for one in vocabulary.assertions(sentence)}
    assert there == {**dict.fromkeys(sided, "left"), **dict.fromkeys(others, "")}
    both = frozenset({"left", "right"})
    said = {**dict.fromkeys(sided, frozenset({"left"})), **dict.fromkeys(others, both)}
    assert vocabulary.says([sentence]).present == said


def _agree(sentences: Iterable[str]) -> int:
    """Compare what the three readers make of sentences; returns how many name a side."""
    sided = 0
    for sentence in dict.fromkeys(sentences):
        named, words = sides_of(sentence), words_of(sentence)
        sided += bool(named)
        vocabulary = Vocabulary({word: word for word in words.affirmed})
        for one in vocabulary.assertions(sentence):
            if one.present:
                left, right = one.finding in words.left, one.finding in words.right
                side = "" if left == right else "left" if left else "right"
                assert one.side == side, sentence
                if len(named) < 2:  # of a clause that stands apart nothing is said
                    assert one.side in ("", side_of(sentence)), sentence
        if other := mirrored(sentence):
            assert sides_of(other) == {"left", "right"} - named, sentence
    return sided


def test_readers_agree_on_the_sentences_of_phantoms() -> None:
    drawn = draw_studies(400, seed=5)
    said = (one.text for study in drawn for _, part in study.report.sections() for one in part)
    assert _agree(said) > 300


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="CXRTEXT_TEST_DATA is not set")
@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_readers_agree_on_sentences_of_radiologists(one_in: int) -> None:
    assert DATA is not None
    with (Path(DATA) / "reports" / "reports.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[::one_in]
    parts = ("findings", "impression")
    studies = (Study(row["study_id"], "", {name: row[name] for name in parts}) for row in rows)
    said = (one.sentence for study in studies for one in study_sentences(study))
    assert _agree(said) > 1000 / one_in


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Large left pleural effusion.", "Large right pleural effusion."),
        ("Left upper lobe consolidation.", "Right upper lobe consolidation."),
        ("Opacity in the RLL.", "Opacity in the LLL."),
        ("RML atelectasis.", ""),  # there is no left middle lobe
        ("Upper lobe fibrosis.", ""),
        # Their mirrors may be as true as they are.
        ("No left pleural effusion.", ""),
        ("Possible left effusion.", ""),
        ("The left lung is clear.", ""),
        ("Effusions, right greater than left.", ""),
        ("", ""),
    ],
)
def test_mirrored(sentence: str, expected: str) -> None:
    assert mirrored(sentence) == expected


def test_mirrors_that_may_be_true_are_left_out() -> None:
    assert false_mirrors(["Left effusion.", "Small right effusions."]) == ["", ""]
    assert false_mirrors(["Left effusion.", "Bilateral effusions."]) == ["", ""]
    assert false_mirrors(["Left upper lobe mass.", "Mass in the RLL."]) == ["", ""]
    # Another finding, or the same side again, leaves them.
    assert false_mirrors(["Left effusion.", "Right edema.", "The left effusion is large."]) == [
        "Right effusion.",
        "Left edema.",
        "The right effusion is large.",
    ]
