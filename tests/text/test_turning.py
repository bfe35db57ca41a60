import pytest

from cxrtext.text.turning import (
    denied,
    false_of,
    mirrored,
    turned,
)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Large left pleural effusion.", ("Large right pleural effusion.",)),
        ("Right-sided chest tube.", ("Left-sided chest tube.",)),
        ("PNEUMOTHORAX ON THE LEFT.", ("PNEUMOTHORAX ON THE RIGHT.",)),
        (
            "Left upper lobe consolidation.",
            ("Right upper lobe consolidation.", "Left lower lobe consolidation."),
        ),
        ("Opacity in the RLL.", ("Opacity in the LLL.", "Opacity in the RUL.")),
        ("Opacity in the rul.", ("Opacity in the lul.", "Opacity in the rll.")),
        ("RML atelectasis.", ()),  # there is no left middle lobe
        ("Upper lobe fibrosis.", ("Lower lobe fibrosis.",)),
        ("Lower lung opacity, lower than before.", ("Upper lung opacity, lower than before.",)),
        # Their turned forms may be as true as they are.
        ("No left pleural effusion.", ()),
        ("Left effusion without pneumothorax.", ()),
        ("Possible left effusion.", ()),
        ("The left lung is clear.", ()),
        ("Bilateral pleural effusions.", ()),
        ("Effusions, right greater than left.", ()),
        ("Small effusion in both lower lobes.", ()),
        ("Pleural effusion.", ()),
        ("", ()),
    ],
)
def test_mirrored(sentence: str, expected: tuple[str, ...]) -> None:
    assert mirrored(sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("No pneumothorax.", "Pneumothorax."),
        ("There is no pneumothorax.", "There is pneumothorax."),
        ("No evidence of a fracture.", "Fracture."),
        ("No pleural effusion is seen.", "Pleural effusion is seen."),
        ("No effusion or pneumothorax.", "Effusion or pneumothorax."),
        ("The heart is not enlarged.", "The heart is enlarged."),
        ("Pneumothorax.", "No pneumothorax."),
        ("There is a left effusion.", "There is no left effusion."),
        ("A small effusion is present.", "No small effusion is present."),
        ("The heart is enlarged.", "The heart is not enlarged."),
        ("PICC in the SVC.", "No PICC in the SVC."),
    ],
)
def test_denied(sentence: str, expected: str) -> None:
    assert denied(sentence) == (expected,)


@pytest.mark.parametrize(
    "sentence",
    [
        "The lungs are clear.",  # names no finding
        "Heart size is normal.",
        "Possible pneumothorax.",
        "No effusion, but there is a pneumothorax.",
        "Effusion and consolidation in the left lower lobe.",  # to deny both is to deny each?
        "No pneumothorax; no effusion.",
        "No significant change.",
        "",
    ],
)
def test_what_cannot_be_denied_in_a_word_is_left(sentence: str) -> None:
    assert denied(sentence) == ()


def test_taking_a_denial_away_and_putting_it_back() -> None:
    for sentence in ("Pneumothorax.", "There is edema.", "The aorta is tortuous."):
        (once,) = denied(sentence)
        assert denied(once) == (sentence,)


def test_turned_gives_each_once_by_the_rules_asked_for() -> None:
    said = "Small left pleural effusion."
    assert turned(said) == ("Small right pleural effusion.", "No small left pleural effusion.")
    assert turned(said, ["denied"]) == ("No small left pleural effusion.",)
    assert turned(said, []) == ()
    assert turned("The lungs are clear.") == ()


def test_forms_that_the_report_may_mean_elsewhere_are_left_out() -> None:
    assert false_of(["Left effusion.", "Small right effusions."], ["mirrored"]) == [(), ()]
    assert false_of(["Left effusion.", "Bilateral effusions."], ["mirrored"]) == [(), ()]
    assert false_of(["Left upper lobe mass.", "Mass in the RLL."], ["mirrored"]) == [(), ()]
    # Another finding, or the same side again, leaves them.
    kept = false_of(["Left effusion.", "Right pneumothorax.", "The left effusion is large."])
    assert kept[0] == ("Right effusion.", "No left effusion.")
    assert kept[1] == ("Left pneumothorax.", "No right pneumothorax.")
    assert kept[2] == ("The right effusion is large.", "The left effusion is not large.")


def test_a_form_that_the_report_says_itself_is_none() -> None:
    assert false_of(["No edema.", "Edema."], ["denied"]) == [(), ()]
    assert false_of([]) == []
