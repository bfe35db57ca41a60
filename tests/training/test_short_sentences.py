"""Short sentences of what reports affirm and deny, and the images they are true of."""

from pathlib import Path

import numpy as np
import pytest

from cxrtext.config import load_config
from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import ConfigError, DataError
from cxrtext.phantom.claims import UNCHANGED, holding
from cxrtext.phantom.studies import draw_studies
from cxrtext.phantom.tables import TRUTH_COLUMNS, truth_rows
from cxrtext.phantom.truth import read_truth
from cxrtext.phantom.write import VERSION
from cxrtext.records import ImageRecord, Sentence, read_manifest, write_table
from cxrtext.text.entailment import Statement, statement_of
from cxrtext.text.finding_words import FindingWord
from cxrtext.training import train
from cxrtext.training.data.sentences import SECTION, short_sentences, study_words
from cxrtext.training.image_text import read_tables
from cxrtext.training.objectives.remove_by_report import made_true
from cxrtext.training.objectives.remove_by_truth import known_true

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


def made(sentences: list[Sentence], words: list[FindingWord] = WORDS) -> list[tuple[str, str]]:
    found = short_sentences(study_words(sentences), words, sentences)
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
    with pytest.raises(ConfigError, match=r"data\.words: dcl-eta-true needs"):
        load_config(None, [*options, f"data.words={words}", "objective.name=dcl-eta-true"])
    words.write_text("effusion\n")
    with pytest.raises(ConfigError, match="has no section 'words'"):
        read_tables(load_config(None, [*options, "training.section_weights={words: 0.5}"]))


STUDIES = draw_studies(40, 5)
TEXTS = [
    Sentence(study.study_id, section, place, one.text)
    for study in STUDIES
    for section, some in study.report.sections()
    for place, one in enumerate(some)
]
RECORDS = [
    ImageRecord(Path(f"{s.study_id}.png"), s.study_id, s.study_id, s.patient_id, s.split)
    for s in STUDIES
]
REPORTS = [
    np.asarray([i for i, one in enumerate(TEXTS) if one.study_id == study.study_id])
    for study in STUDIES
]


def folder_of(out: Path, seed: int = 5, version: int = VERSION) -> Path:
    write_table(out / "truth.csv", TRUTH_COLUMNS, list(truth_rows(STUDIES)))
    note = f'{{"version": {version}, "studies": {len(STUDIES)}, "seed": {seed}}}'
    (out / "phantom.json").write_text(note)
    return out


def test_reports_of_a_batch_as_one_by_one() -> None:
    statements = {one.sentence: statement_of(one.sentence) for one in TEXTS}
    rows = np.random.default_rng(0).permutation(len(STUDIES))[:16]
    chosen = np.random.default_rng(1).integers(0, len(TEXTS), 60)
    reports = [[TEXTS[k].sentence for k in REPORTS[row]] for row in rows]
    found = made_true(statements, [TEXTS[i].sentence for i in chosen], reports)

    def entails(row: int, said: Statement) -> bool:
        report = [statements[TEXTS[k].sentence].offered for k in REPORTS[row]]
        if any(said.denied & offered for offered in report):
            return False
        return not said.asked or any(said.asked <= offered for offered in report)

    asked = [statements[TEXTS[i].sentence] for i in chosen]
    assert found.tolist() == [[entails(row, said) for row in rows] for said in asked]
    assert 0.1 < found.mean() < 0.7


def test_the_truth_of_drawn_images_and_how_near_reports_come_to_it(tmp_path: Path) -> None:
    known = read_truth(folder_of(tmp_path))
    assert known is not None
    states = [study.patient.state for study in STUDIES]
    said_of_all = [one.sentence for one in TEXTS]
    found = known_true(known, said_of_all, [record.study_id for record in RECORDS])
    claims = [one.claim for s in STUDIES for _, some in s.report.sections() for one in some]
    clear = [text for text in known.claims if text in {one.sentence for one in TEXTS}]
    assert len(clear) > 0.8 * len({one.sentence for one in TEXTS})
    for row, text, claim in zip(found, TEXTS, claims, strict=True):
        if text.sentence in known.claims:
            assert row.tolist() == holding([claim], states)[0].tolist()
        else:
            assert not row.any()
    assert any(claim == UNCHANGED for claim in claims)
    statements = {one.sentence: statement_of(one.sentence) for one in TEXTS}
    reports = [[TEXTS[k].sentence for k in report] for report in REPORTS]
    guessed = made_true(statements, said_of_all, reports)
    assert guessed[found].mean() > 0.5  # of the false negatives, more than half are found
    assert found[guessed].mean() > 0.7  # of what is removed, most is a false negative


def test_a_set_that_is_not_as_it_was_drawn(tmp_path: Path) -> None:
    assert read_truth(tmp_path) is None
    with pytest.raises(DataError, match="truth.csv: row 1: no sentence of the set that phantom.js"):
        read_truth(folder_of(tmp_path, seed=6))
    with pytest.raises(DataError, match="drawn by version 2 of the phantoms, and this is 4; draw"):
        read_truth(folder_of(tmp_path, version=2))
    (tmp_path / "phantom.json").write_text("{")
    with pytest.raises(DataError, match="phantom.json: not readable; draw the set again"):
        read_truth(tmp_path)
