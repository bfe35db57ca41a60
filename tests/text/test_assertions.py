"""What sentences say of findings, what a report makes true, and words of findings of a corpus."""

from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.text.assertions import Assertion, assertions_of, says_of
from cxrtext.text.entailment import statement_of
from cxrtext.text.finding_words import (
    FindingWord,
    corpus_words,
    find_words,
    read_words,
    word_targets,
    write_words,
)
from cxrtext.training.objectives.remove_by_report import made_true


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Moderate edema without pleural effusion.", ["edema", "no pleural effusion"]),
        ("No large pleural effusion.", ["no large pleural effusion"]),
        ("Possible left pneumothorax.", []),
        ("The heart is normal in size.", ["no cardiomegaly"]),
        ("The heart is enlarged.", ["cardiomegaly"]),
        ("Left effusion, RUL pneumothorax.", ["pleural effusion", "pneumothorax"]),
        ("Right lower lobe pneumonia.", ["right pneumonia"]),  # an opacity says no more
        ("The scars are unchanged.", []),
    ],
)
def test_what_a_sentence_says(sentence: str, said: list[str]) -> None:
    assert sorted(map(str, assertions_of(sentence))) == sorted(said)


def test_only_what_is_not_named_is_implied() -> None:
    (implied,) = assertions_of("The heart is normal in size.")
    (named,) = assertions_of("The heart is not enlarged.")
    assert implied == Assertion("cardiomegaly", False, implied=True)
    assert named == Assertion("cardiomegaly", False)


def test_what_a_report_says_and_contradicts() -> None:
    says = says_of(
        ["Left effusion.", "Heart size normal.", "No right effusion.", "Possible edema."]
    )
    assert dict(says.present) == {"pleural effusion": frozenset({"left"})}
    assert says.absent == {"cardiomegaly"}
    assert says.named == {"pleural effusion", "cardiomegaly", "edema"}
    for sentence in ("Right effusion.", "No effusion.", "No left effusion.", "Cardiomegaly."):
        assert says.contradicts(assertions_of(sentence)), sentence
    for sentence in (
        *("Effusion.", "No right effusion.", "No large effusion.", "Edema.", "No edema."),
    ):
        assert not says.contradicts(assertions_of(sentence)), sentence


REPORT = (
    "Small left pleural effusion and mild atelectasis.", "The heart is enlarged.",
    "No pneumothorax.", "Pneumonia cannot be excluded.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "true"),
    [
        ("Right pleural effusion.", False),  # another place
        ("Large left pleural effusion.", False),  # another size
        ("Mild effusion.", True),  # words are told apart by sentence, not by what they belong to
        ("Enlarged heart with left effusion.", False),  # not in one sentence
        ("No pulmonary edema.", True),  # not said, and nothing against it
        ("Left effusion, no atelectasis.", False),
        ("The heart is normal in size.", False),
        ("Pneumonia.", False),  # hedged there
        ("Pneumonia cannot be excluded.", True),  # word for word
    ],
)
def test_what_a_report_makes_true(sentence: str, true: bool) -> None:
    said = [*REPORT, sentence]
    statements = {one: statement_of(one) for one in said}
    assert bool(made_true(statements, [sentence], [REPORT]).item()) == true


def corpus(*reports: list[str], times: int = 20) -> list[list[str]]:
    """Reports that affirm, repeated, among as many that deny."""
    denial = ["No effusion, XXXX or nodule.", "The patient is in no distress since [**Name**]."]
    return [*(report for report in reports for _ in range(times)), *[denial] * (3 * times)]


def test_rare_findings_marks_and_stop_words() -> None:
    reports = corpus(
        ["There is a left XXXX effusion.", "XXXX x-XXXX ___ [**Hospital1 nodule**]."], times=10
    )
    studies = corpus_words(reports + [["Normal chest."]] * 1200)
    words = find_words(studies)
    # 10 of 1,240 are below 2 %, and enough; the nodule stands in a mark
    assert [(word.name, word.affirmed, word.denied) for word in words] == [("effusion", 10, 30)]
    assert find_words(corpus_words(corpus(["Large effusion."], times=4))) == []


def test_targets_of_sides_and_what_is_hedged() -> None:
    forms = ("effusion", "effusions")
    plain, left, right = FindingWord(forms), FindingWord(forms, "left"), FindingWord(forms, "right")
    studies = corpus_words(
        [
            ["Small left effusion; the right lung is clear."], ["Effusions on both sides."],
            ["There is an effusion."], ["Possible left effusion."], ["No left effusion."],
            ["Normal chest."], ["Right effusion, but no left effusion."],
        ]
    )  # fmt: skip
    targets = word_targets([plain, left, right], studies)
    assert targets.tolist() == [
        [1, 1, 0], [1, 1, 1], [1, -1, -1], [-1, -1, -1], [0, 0, 0], [0, 0, 0], [1, 0, 1],
    ]  # fmt: skip
    both = find_words(
        corpus_words(corpus(["Left effusion."], ["Right effusion."], ["Some nodules."])), sides=True
    )
    assert [word.name for word in both] == [
        *("effusion", "nodule"),
        *("left effusion", "right effusion"),
    ]


def test_a_file_of_words_is_read_as_it_was_written_and_bad_lines_are_named(tmp_path: Path) -> None:
    studies = corpus_words(corpus(["Left effusion."], ["Right effusion."], ["Two nodules."]))
    words, path = find_words(studies, sides=True), tmp_path / "words.txt"
    write_words(path, words)
    again = read_words(path, studies)
    assert again == words
    assert [word.affirmed for word in again] == [40, 20, 20, 20]
    path.write_text(path.read_text(), encoding="utf-8-sig")  # as some editors save it
    assert read_words(path, studies) == words
    for line, wrong in (
        ("effusion nodule", "line 2: is not a finding word"),
        ("opacity", "line 2: no training report affirms 'opacity'"),
        ("Nodules, effusion", "line 2: 'effusion' is in line 1 already"),
    ):
        path.write_text(f"effusion\n{line}\n")
        with pytest.raises(DataError, match=wrong):
            read_words(path, studies)
    path.write_text("# nothing\n\n")
    with pytest.raises(DataError, match="has no words"):
        read_words(path, studies)
