import subprocess
import sys
import time

import pytest

from cxrtext.errors import ConfigError
from cxrtext.records import Study
from cxrtext.text import split_sections, split_sentences, study_sentences
from cxrtext.text.segmenter import ORIGINAL_PATTERN, PIECE_LIMIT


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n\n ", []),
        ("The lungs are clear. No effusion.", ["The lungs are clear.", "No effusion."]),
        ("Clear lungs", ["Clear lungs"]),
        (
            "There is no\n pleural effusion or\n pneumothorax.",
            ["There is no pleural effusion or pneumothorax."],
        ),
        ("No effusion\n\nNormal heart", ["No effusion", "Normal heart"]),
        ("1. Edema.\n2. Cardiomegaly.", ["Edema.", "Cardiomegaly."]),
        ("1. Edema. 2. Cardiomegaly.", ["Edema.", "Cardiomegaly."]),
        ("1) Edema. 2) Cardiomegaly.", ["Edema.", "Cardiomegaly."]),
        ("1.Edema\n 2.Small effusion", ["Edema", "Small effusion"]),
        ("- Edema\n- Small effusion", ["Edema", "Small effusion"]),
        ("Chest 1. Normal heart. 2. Clear lungs.", ["Chest", "Normal heart.", "Clear lungs."]),
        (
            "Midline sternotomy XXXX. Clear lungs.",
            ["Midline sternotomy XXXX.", "Clear lungs."],
        ),
        (
            "The tip ends at ___. Discussed with Dr. ___ by phone.",
            ["The tip ends at ___.", "Discussed with Dr. ___ by phone."],
        ),
        ("Seen by Dr. Smith today.", ["Seen by Dr. Smith today."]),
        ("A mass of 5.2 cm vs. 4 cm before.", ["A mass of 5.2 cm vs. 4 cm before."]),
        ("Lines, e.g. a PICC, are in place.", ["Lines, e.g. a PICC, are in place."]),
        ("Tube No. 3 is in place.", ["Tube No. 3 is in place."]),
        ("Fracture of T12. Stable.", ["Fracture of T12.", "Stable."]),
        (
            "Cavity in the left apex.There is scarring.",
            ["Cavity in the left apex.", "There is scarring."],
        ),
        ("Is there edema? No.", ["Is there edema?", "No."]),
        ("XXXX. ___. 12. ...", []),
        (
            "[&lt;Clear lungs. No effusion.&gt;] Stable.",
            ["Clear lungs.", "No effusion.", "Stable."],
        ),
        ("The heart is &gt; 50 %.", ["The heart is > 50 %."]),
        ("Cœur normal. Pas d'épanchement.", ["Cœur normal.", "Pas d'épanchement."]),
    ],
)
def test_sentences_of_radiology(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_a_long_paragraph_is_cut_at_the_ends_of_sentences() -> None:
    sentence = "The cardiomediastinal silhouette is within normal limits."
    count = 3 * PIECE_LIMIT // len(sentence)
    assert split_sentences(" ".join([sentence] * count)) == [sentence] * count


def test_no_word_is_lost_where_there_is_no_place_to_cut() -> None:
    words = [f"word{number}" for number in range(1000)]
    assert " ".join(split_sentences(" ".join(words))).split() == words


def test_the_pattern_that_is_replaced_is_still_the_one_that_was_examined() -> None:
    # In a process of its own: here it may be replaced already.
    code = (
        "from pysbd.lang.common.common import Common; "
        "print(Common.NUMBERED_REFERENCE_REGEX, end='')"
    )
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-X", "utf8", "-c", code],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert out.stdout == ORIGINAL_PATTERN


@pytest.mark.parametrize(
    "unit",
    [
        "111 ",
        "1. ",
        "a. ",
        "i. ",
        "xii. ",
        "(a) ",
        "a.) ",
        "No. 1",
        "[1] ",
        "a\n",
        "\n \n",
        "U.S. ",
        '"a ',
        "((",
        "!",
        "? ",
        "A",
        "FINDINGS: ",
        "CHEST ",
        "reason for ",
        "&lt;",
    ],
)
def test_no_text_is_slow(unit: str) -> None:
    attack = ("..[" + unit * (20_000 // len(unit)))[:20_000]
    started = time.process_time()
    for _, body in split_sections(attack):
        split_sentences(body)
    assert time.process_time() - started < 1.0


def test_columns_of_sections_are_used_and_administrative_ones_left_out() -> None:
    study = Study(
        "s1",
        sections={
            "indication": "Cough.",
            "findings": "Clear lungs. No effusion.",
            "impression": "Normal chest.",
        },
    )
    found = [(s.study_id, s.section, s.position, s.sentence) for s in study_sentences(study)]
    assert found == [
        ("s1", "findings", 0, "Clear lungs."),
        ("s1", "findings", 1, "No effusion."),
        ("s1", "impression", 0, "Normal chest."),
    ]


def test_headings_inside_a_column_open_their_own_section() -> None:
    study = Study(
        "s1", sections={"findings": "Clear. IMPRESSION: Normal.", "impression": "Stable."}
    )
    assert [(s.section, s.position, s.sentence) for s in study_sentences(study)] == [
        ("findings", 0, "Clear."),
        ("impression", 0, "Normal."),
        ("impression", 1, "Stable."),
    ]


def test_the_whole_report_is_used_where_no_column_has_text() -> None:
    report = "INDICATION: Cough.\nFINDINGS: Clear lungs."
    both = Study("s1", report=report, sections={"findings": "Clear lungs.", "impression": ""})
    assert [s.sentence for s in study_sentences(both)] == ["Clear lungs."]
    alone = Study("s1", report=report, sections={"findings": "", "impression": ""})
    assert [s.sentence for s in study_sentences(alone)] == ["Clear lungs."]


def test_sections_can_be_chosen() -> None:
    study = Study("s1", report="INDICATION: Cough.\nFINDINGS: Clear lungs.")
    assert [s.sentence for s in study_sentences(study, ["Indication"])] == ["Cough."]
    with pytest.raises(ConfigError, match="'finding' is not one of: report, findings"):
        study_sentences(study, ["finding"])


def test_a_study_without_text_has_no_sentences() -> None:
    assert study_sentences(Study("s1", sections={"findings": "", "impression": " "})) == []
    assert study_sentences(Study("s1")) == []


def test_importing_the_package_imports_neither_torch_nor_pysbd() -> None:
    code = (
        "import sys, cxrtext.text; print([n for n in ('torch','transformers','pysbd')"
        " if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert out.stdout.strip() == "[]"
