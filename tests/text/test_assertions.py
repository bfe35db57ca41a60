"""What sentences say of findings, and what a corpus teaches of it."""

import pytest

from cxrtext.text.assertions import Assertion, Vocabulary, learn_vocabulary

WORDS = ("effusion", "pneumothorax", "edema", "interstitial", "cardiomegaly")
VOCABULARY = Vocabulary(
    {**{word: word for word in WORDS}, "effusions": "effusion", "enlarged": "cardiomegaly"},
    frozenset({"interstitial"}),
    {"heart": ("cardiomegaly",), "effusion": ("effusion",)},
)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Small left pleural effusion.", ["left effusion"]),
        ("Bilateral pleural effusions.", ["effusion"]),
        ("No effusion or pneumothorax.", ["no effusion", "no pneumothorax"]),
        ("Moderate edema without pleural effusion.", ["edema", "no effusion"]),
        ("Severe interstitial edema.", ["edema"]),  # the modifier says nothing of its own
        ("No right pneumothorax.", ["no right pneumothorax"]),
        ("No large pleural effusion.", ["no large effusion"]),
        ("Possible left pneumothorax.", []),
        ("The heart is normal in size.", ["no cardiomegaly"]),
        ("Tortuous aorta.", []),
        ("Left effusion, RUL pneumothorax.", ["effusion", "pneumothorax"]),
    ],
)
def test_what_a_sentence_says(sentence: str, said: list[str]) -> None:
    assert [str(one) for one in VOCABULARY.assertions(sentence)] == said


def test_only_what_is_not_named_is_implied() -> None:
    (implied,) = VOCABULARY.assertions("The heart is normal in size.")
    (named,) = VOCABULARY.assertions("The heart is not enlarged.")
    assert implied == Assertion("cardiomegaly", False, implied=True)
    assert named == Assertion("cardiomegaly", False)


def test_what_a_report_says_and_contradicts() -> None:
    says = VOCABULARY.says(
        ["Left effusion.", "Heart size normal.", "No right effusion.", "Possible edema."]
    )
    assert dict(says.present) == {"effusion": frozenset({"left"})}
    assert says.absent == {"cardiomegaly"}
    assert says.named == {"effusion", "cardiomegaly", "edema"}
    for sentence, contradicted in (
        ("Right effusion.", True),
        ("Effusion.", False),
        ("No effusion.", True),
        ("No left effusion.", True),
        ("No right effusion.", False),
        ("No large effusion.", False),
        ("Cardiomegaly.", True),
        ("Edema.", False),
        ("No edema.", False),
    ):
        assert says.contradicts(VOCABULARY.assertions(sentence)) == contradicted, sentence


def test_a_corpus_tells_what_rules_a_finding_out_and_which_words_are_one() -> None:
    studies = [
        ["Cardiomegaly.", "No pneumothorax."],
        ["The heart is enlarged.", "Pneumothorax."],
        ["Heart not enlarged."],
        ["The heart is normal in size.", "No pneumothorax."],
    ] * 24
    found = learn_vocabulary(studies)
    assert found.forms["enlarged"] == found.forms["cardiomegaly"]
    heart = found.forms["cardiomegaly"]
    assert found.excludes["size"] == (heart,)
    assert heart not in found.excludes.get("pneumothorax", ())
    assert "is" not in found.excludes


def test_what_is_denied_together_is_not_one() -> None:
    studies = [
        ["No effusion or pneumothorax."],
        ["No effusion or pneumothorax."],
        ["No pneumothorax.", "Effusion."],
        ["No effusion.", "Pneumothorax."],
    ] * 24
    found = learn_vocabulary(studies)
    assert found.forms["effusion"] != found.forms["pneumothorax"]
    assert found.excludes == {}
    # "No opacity" rules a nodule out, but not the other way round.
    studies = [
        ["No opacity."],
        ["Nodule."],
        ["Opacity.", "No nodule."],
        ["Nodule."],
    ] * 24
    found = learn_vocabulary(studies)
    assert found.forms["opacity"] != found.forms["nodule"]
    assert found.excludes["opacity"] == ("nodule",)


def test_few_reports_prove_nothing() -> None:
    few = [["Cardiomegaly."], ["The heart is enlarged."], ["Heart not enlarged."]] * 2
    assert learn_vocabulary(few).excludes == {}
    assert learn_vocabulary([]).forms == {}
