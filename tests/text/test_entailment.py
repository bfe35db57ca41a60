import pytest

from cxrtext.text.entailment import entails, statement_of

REPORT = (
    "Small left pleural effusion and mild atelectasis.",
    "The heart is enlarged.",
    "No pneumothorax.",
    "Pneumonia cannot be excluded.",
)


@pytest.mark.parametrize(
    ("sentence", "true"),
    [
        ("Left pleural effusion.", True),
        ("Small left effusion.", True),
        ("Right pleural effusion.", False),  # another place
        ("Large left pleural effusion.", False),  # another size
        ("Mild effusion.", True),  # words are told apart by sentence, not by what they belong to
        ("Enlarged heart with left effusion.", False),  # not in one sentence
        ("No pneumothorax.", True),
        ("No pulmonary edema.", True),  # not said, and nothing against it
        ("No pleural effusion.", False),
        ("No effusion or pneumothorax.", False),
        ("Left effusion without pneumothorax.", True),
        ("Left effusion, no atelectasis.", False),
        ("The heart is enlarged.", True),
        ("The heart is normal in size.", False),
        ("Pneumothorax.", False),
        ("Pneumonia.", False),  # hedged there
        ("Pneumonia cannot be excluded.", True),  # word for word
    ],
)
def test_what_a_report_makes_true(sentence: str, true: bool) -> None:
    assert entails([statement_of(one) for one in REPORT], statement_of(sentence)) == true


def test_an_empty_report_denies_everything_and_says_nothing() -> None:
    assert entails([], statement_of("No pneumothorax."))
    assert not entails([], statement_of("Pneumothorax."))
