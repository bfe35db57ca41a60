"""Which sides a sentence names, and sentences turned into what is not so."""

import pytest

from cxrtext.text.finding_words import sentence_words
from cxrtext.text.sides import false_mirrors, mirrored, other_side, side_of, sides_of


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
    words = sentence_words(sentence)
    assert sided <= words.left
    assert words.left.isdisjoint(others)
    assert not words.right


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
