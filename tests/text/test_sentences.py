import subprocess
import sys

import pytest

from cxrtext.errors import ConfigError
from cxrtext.records import Study
from cxrtext.text import split_sentences, study_sentences
from cxrtext.text.boundaries import CHUNK_LIMIT


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (" \n\n ", []),
        ("There is no\n effusion or\n pneumothorax.", ["There is no effusion or pneumothorax."]),
        ("No effusion\n\nNormal heart", ["No effusion", "Normal heart"]),
        ("1. Edema. 2. Cardiomegaly.", ["Edema.", "Cardiomegaly."]),
        ("Chest 1. Normal heart. 2. Clear lungs.", ["Chest", "Normal heart.", "Clear lungs."]),
        ("XXXX. ___. 12. ...", []),
        ("[&lt;Clear. No effusion.&gt;] Stable.", ["Clear.", "No effusion.", "Stable."]),
        ("The heart is &gt; 50 %.", ["The heart is > 50 %."]),
        ("[<Clear lungs.>] A nodule [<5 mm].", ["Clear lungs.", "A nodule [<5 mm]."]),
        ("[<2 views>] Clear lungs.>]", ["2 views Clear lungs."]),
        ("No\x00edema.\x85The\u2028heart\x1fis\fbig.", ["No edema.", "The heart is big."]),
    ],
)
def test_sentences_of_radiology_without_marks_and_controls(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "A mass of 5.2 cm vs. 4 cm before.", "Tube No. 3 is in place.", "Emphysema, stage V.",
        "Fracture of T12.", "Midline sternotomy XXXX.", "Discussed with Dr. ___ by phone.",
        "It measures 2 cm. x 3 cm. in size.", "Called at 10:30p.m. by phone.",
        "Called at 10:30 A.M. on ___.", "Edema v. Pneumonia.", "R. lung is clear.",
        "Lines, i.e. Swan and PICC, in place.", "Fracture of the left 3. rib.",
        "Fever ? pneumonia ? edema.", "Limited ... exam of the chest.", "Compared to Jan. 5.",
        "Nodule (see note. It is old.) is stable.", "PICC line tip at 1.5 cm.",
    ],
)  # fmt: skip
def test_stops_that_end_no_sentence(sentence: str) -> None:
    assert split_sentences(sentence) == [sentence]
    assert split_sentences(f"{sentence} The heart is normal.") == [sentence, "The heart is normal."]


@pytest.mark.parametrize(
    "marked",
    [
        "It measures 1.5.| The heart is big.", "It is 2 cm.| there is edema.",
        "Told at 4:15 p.m.| The tube is high.", "Hepatitis C.| There is ascites.",
        "Is it wide?| No.| 3 mm nodule.", "Limited...| The lungs are clear.",
        "Tip at T12.|There is edema.", "heart normal.| lungs clear.",
        "In zone 1.| The one in zone 2.| The rest.", "NO EFFUSION.|HEART NORMAL.",
        'A 3" scar.| The heart is big.| A 2" scar.', "Opacity in the RUL.LLL clear.",
    ],
)  # fmt: skip
def test_ends_that_are_easily_missed(marked: str) -> None:
    ends = [sentence.strip() for sentence in marked.split("|")]
    assert split_sentences(marked.replace("|", "")) == ends


@pytest.mark.parametrize(
    "text",
    [
        "1. Edema\n2. Effusion", "(1) Edema (2) Effusion", "1.Edema\n2.Effusion",
        "1. Edema 2., Effusion", "- Edema\n- Effusion", "•Edema\n•Effusion",
        "Edema\f\n\n\x0bEffusion", "a. Edema\nb. Effusion", "A) Edema\n  B) Effusion",
    ],
)  # fmt: skip
def test_items_are_sentences_without_a_stop(text: str) -> None:
    assert split_sentences(text) == ["Edema", "Effusion"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Edema noted.2. Effusion.", ["Edema noted.", "Effusion."]),
        ("At the level of\n4. It is high.", ["At the level of 4.", "It is high."]),
        ("Deficiency of vitamin\na. No effusion.", ["Deficiency of vitamin a.", "No effusion."]),
        ("No effusion.. Heart normal..", ["No effusion.", "Heart normal."]),
    ],
)
def test_marks_of_items_and_what_is_none(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_a_line_that_was_ended_on_purpose_ends_a_sentence() -> None:
    text = (
        "Heart size is normal\nClear lungs\n"
        "There is a small nodule in the right upper lobe that was seen before\nin the same place"
    )
    assert split_sentences(text) == [
        "Heart size is normal",
        "Clear lungs",
        "There is a small nodule in the right upper lobe that was seen before in the same place",
    ]


def test_a_wrapped_name_does_not_end_a_line() -> None:
    text = (
        "The tube was seen by Dr.\nSmith and is unchanged since the previous examination of\n___."
    )
    assert len(split_sentences(text)) == 1


def test_a_long_paragraph_is_cut_at_the_ends_of_sentences() -> None:
    sentence = "The cardiomediastinal silhouette is within normal limits."
    count = 3 * CHUNK_LIMIT // len(sentence)
    assert split_sentences(" ".join([sentence] * count)) == [sentence] * count


def test_columns_of_sections_are_used_and_administrative_ones_left_out() -> None:
    said = {"findings": "Clear lungs. No effusion.", "impression": "Normal chest."}
    study = Study("s1", sections={"indication": "Cough.", **said})
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


def test_the_whole_report_is_used_where_no_column_has_text_if_there_is_one() -> None:
    report = "INDICATION: Cough.\nFINDINGS: Clear lungs."
    both = Study("s1", report=report, sections={"findings": "Clear lungs.", "impression": ""})
    assert [s.sentence for s in study_sentences(both)] == ["Clear lungs."]
    alone = Study("s1", report=report, sections={"findings": "", "impression": ""})
    assert [s.sentence for s in study_sentences(alone)] == ["Clear lungs."]
    assert study_sentences(Study("s1", sections={"findings": "", "impression": " "})) == []
    assert study_sentences(Study("s1")) == []


def test_sections_can_be_chosen() -> None:
    study = Study("s1", report="INDICATION: Cough.\nFINDINGS: Clear lungs.")
    assert [s.sentence for s in study_sentences(study, ["Indication"])] == ["Cough."]
    with pytest.raises(ConfigError, match="'finding' is not one of: report, findings"):
        study_sentences(study, ["finding"])


def test_importing_the_package_imports_neither_torch_nor_pysbd() -> None:
    code = (
        "import sys, cxrtext.text; print([n for n in ('torch','transformers','pysbd')"
        " if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert out.stdout.strip() == "[]"
