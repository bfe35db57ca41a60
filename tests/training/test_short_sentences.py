"""Short sentences of what reports affirm and deny."""

from pathlib import Path

import pytest

from cxrtext.config import load_config
from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import ConfigError, DataError
from cxrtext.records import Sentence, read_manifest
from cxrtext.text.finding_words import FindingWord
from cxrtext.training import train
from cxrtext.training.data.sentences import SECTION, short_sentences, study_words
from cxrtext.training.image_text import read_tables

WORDS = [
    FindingWord(("effusion", "effusions")),
    FindingWord(("pneumothorax",)),
    FindingWord(("nodule",)),
    FindingWord(("effusion",), "left"),
]


def said(**reports: str) -> list[Sentence]:
    return [
        Sentence(study, "findings", place, sentence + ".")
        for study, text in reports.items()
        for place, sentence in enumerate(text.split(". "))
    ]


def made(sentences: list[Sentence]) -> list[tuple[str, str]]:
    found = short_sentences(study_words(sentences), WORDS, sentences)
    return [(one.study_id, one.sentence) for one in found]


def test_studies_say_in_short_what_their_reports_affirm_and_deny() -> None:
    sentences = said(
        a="Small left pleural effusion. No pneumothorax",
        b="No pleural effusions or pneumothorax",
        c="Possible effusion. Pneumothorax on the right",
        d="Effusion. No effusion on the right. A nodule",
    )
    assert made(sentences) == [
        ("a", "Pleural effusion."),
        ("a", "No pneumothorax."),
        ("b", "No pleural effusion."),
        ("b", "No pneumothorax."),
        ("c", "Pneumothorax."),
        ("d", "Pleural effusion."),
    ]  # the nodule, which nobody denies, makes none; what is hedged is neither


def test_a_word_of_several_parts_keeps_its_own_name() -> None:
    sentences = said(a="An air/fluid level", b="No air/fluid level")
    words = [FindingWord(("air/fluid",))]
    found = short_sentences(study_words(sentences), words, sentences)
    assert [one.sentence for one in found] == ["Air/fluid.", "No air/fluid."]


def test_their_class_probability_follows_from_how_many_say_so() -> None:
    sentences = said(a="Effusion", b="No effusion", c="No effusion", d="Clear lungs")
    found = short_sentences(study_words(sentences), WORDS, sentences)
    assert {one.section for one in found} == {SECTION}
    eta = {one.sentence: one.eta for one in found}
    assert eta["Effusion."] == pytest.approx(DEFAULT_A * 0.25**DEFAULT_K)
    assert eta["No effusion."] == pytest.approx(DEFAULT_A * 0.5**DEFAULT_K)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("effusion, effusions\npneumothorax\n")
    return path


def test_a_run_learns_them_of_training_studies_alone(
    options: list[str], words: Path, sentences_table: Path, tmp_path: Path
) -> None:
    denying = tmp_path / "denying.csv"
    clear, denied = "The lungs are clear.", "No effusion or pneumothorax."
    denying.write_text(sentences_table.read_text().replace(clear, denied))
    options = [*options, f"data.sentences={denying}"]
    chosen = [*options, f"data.words={words}", "training.section_weights={words: 0.5}"]
    config = load_config(None, [*chosen, "training.steps=2"])
    plain, tables = read_tables(load_config(None, options)), read_tables(config)
    added = tables.sentences[len(plain.sentences) :]
    assert {one.section for one in added} == {SECTION}
    split = {one.study_id: one.split for one in read_manifest(config.data.manifest)}
    assert {split[one.study_id] for one in added} == {"train"}
    assert tables.fingerprint != plain.fingerprint
    assert tables.unknown == plain.unknown
    train(config)


def test_words_that_cannot_be_learned_are_refused(options: list[str], words: Path) -> None:
    words.write_text("effusion\nunicorn\n")
    with pytest.raises(DataError, match="unicorn"):
        read_tables(load_config(None, [*options, f"data.words={words}"]))
    with pytest.raises(ConfigError, match=r"data\.words: dcl-eta-true wants"):
        load_config(None, [*options, f"data.words={words}", "objective.name=dcl-eta-true"])
    words.write_text("effusion\n")
    alone = [*options, f"data.words={words}", "data.sections=[words]"]
    with pytest.raises(ConfigError, match="has no sentence of these sections; name one"):
        read_tables(load_config(None, alone))
    with pytest.raises(ConfigError, match="has no section 'words'"):
        read_tables(load_config(None, [*options, "training.section_weights={words: 0.5}"]))
