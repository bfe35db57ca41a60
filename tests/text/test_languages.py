"""What sentences say of findings in each language, and false forms of German and Spanish ones."""

import re

import pytest

from cxrtext.errors import ConfigError
from cxrtext.text import split_sections, split_sentences
from cxrtext.text.finding_words import STOP
from cxrtext.text.labelling import Label, sentence_labels
from cxrtext.text.rules import LANGUAGES, language_of, prompts_for, rules
from cxrtext.text.turning import denied, mirrored

# A sentence, and what it says: + there, - not there, ? hedged, ! nothing; sides l, r, b.
ENGLISH = """
The heart is mildly enlarged. | +heart
Borderline cardiomegaly. | ?heart
Pericardial effusion. | !effusion
No left effusion. | -effusion l
Effusion cannot be excluded. | ?effusion
Opacities may represent atelectasis. | +opacity ?atelectasis
Dense nodule suggests old granulomatous disease. | +nodule
Small left effusion, but the right lung has a nodule. | +effusion l +nodule r
Consolidation in the left base. | +consolidation l +opacity l
The lungs are clear. | -opacity !effusion
The left lung is clear. | !opacity
No acute cardiopulmonary abnormality. | -pneumothorax !heart
Please correlate clinically for pneumonia. | !pneumonia
Interval removal of the right chest tube. | !devices
"""
GERMAN = """
Kleiner Pleuraerguss links. | +effusion l
Pleuraergüsse bds., rechts mehr als links. | +effusion b
Kein größerer Erguss. | -effusion
Fraglich kleiner Randwinkelerguss rechts. | ?effusion r
Randwinkel beidseits frei. | -effusion
Mantelpneumothorax rechts apikal. | +pneumothorax r
Der vorbestehende Pneumothorax ist nicht mehr nachweisbar. | -pneumothorax
Ein kleiner Pneumothorax ist nicht sicher auszuschließen. | ?pneumothorax
Herzschatten nicht vergrößert. | -heart
Keine Stauung bei Kardiomegalie. | -edema +heart
Keine pneumonischen Infiltrate. | -pneumonia -opacity -consolidation
Z. n. Pneumonie. |
Verschattung links basal, DD Atelektase. | +opacity l ?atelectasis l
Dystelektase rechts basal, links kein Erguss. | +atelectasis r -effusion l
Die Lunge ist frei. | -opacity -consolidation -pneumonia -atelectasis -edema -nodule -mass
ZVK von rechts mit Spitze in der V. cava superior. | +devices r
"""
SPANISH = """
Pequeño derrame pleural izquierdo. | +effusion l
No hay derrame pleural ni neumotórax. | -effusion -pneumothorax
Senos costofrénicos libres. | -effusion
Pinzamiento del seno costofrénico izquierdo, probable derrame. | ?effusion l
No se descarta pequeño neumotórax izquierdo. | ?pneumothorax l
Neumotórax no visible. | -pneumothorax
Cardiomegalia leve sin derrame. | +heart -effusion
Corazón no aumentado de tamaño. | -heart
Infiltrado en LSD, sugestivo de neumonía. | +opacity r ?pneumonia r
Atelectasia laminar en base izquierda. | +atelectasis l
Pulmones sin alteraciones. | -opacity -consolidation -pneumonia -atelectasis -edema -nodule -mass
Catéter venoso central derecho. | +devices r
No se visualizan derrames y se observa atelectasia derecha. | -effusion +atelectasis r
"""
NAMES = {
    "effusion": "Pleural Effusion",
    "heart": "Cardiomegaly",
    "opacity": "Lung Opacity",
    "granuloma": "Calcified Granuloma",
    "devices": "Support Devices",
}
SIDES = {"": "", "l": "left", "r": "right", "b": "both"}
VALUES = {"+": 1, "-": 0, "?": -1, "!": None}
CASES = [
    (language, *line.split(" |"))
    for language, lines in (("en", ENGLISH), ("de", GERMAN), ("es", SPANISH))
    for line in lines.strip().splitlines()
]


@pytest.mark.parametrize(("language", "sentence", "says"), CASES)
def test_what_a_sentence_says(language: str, sentence: str, says: str) -> None:
    expected: dict[str, tuple[int | None, str]] = {}
    last = ""
    for word in says.split():
        if word in SIDES:
            expected[last] = (expected[last][0], SIDES[word])
        else:
            last = NAMES.get(word[1:], word[1:].capitalize())
            expected[last] = (VALUES[word[0]], "")
    assert language_of(sentence) == language
    found = sentence_labels(sentence)
    assert {name: found.get(name, Label())[:2] for name in expected} == expected
    assert {name for name, one in found.items() if one.value} <= {*expected}


def test_the_language_of_a_sentence() -> None:
    for sentence in ("No pneumothorax.", "Edema.", "Old granuloma in the left base.", "XXXX.", ""):
        assert language_of(sentence) == "en"
    assert language_of("No hay neumotórax.") == "es"
    assert language_of("Kein Pneumothorax.") == "de"


MIRRORS = """
Kleiner linksseitiger Pleuraerguss. | Kleiner rechtsseitiger Pleuraerguss.
Infiltrat im rechten Unterlappen. | Infiltrat im linken Unterlappen.
Derrame pleural izquierdo. | Derrame pleural derecho.
Opacidad en LSI. | Opacidad en LSD.
"""


@pytest.mark.parametrize("pair", MIRRORS.strip().splitlines())
def test_sides_exchanged(pair: str) -> None:
    sentence, mirror = pair.split(" | ")
    assert mirrored(sentence) == mirror
    assert mirrored(mirror) == sentence


STAY = """
Pleuraergüsse beidseits. | Kein Erguss links. | Verdacht auf Erguss links.
Derrame pleural bilateral. | Sin derrame izquierdo. | Atelectasia de la língula.
"""


def test_sides_that_stay() -> None:
    for sentence in re.split(r" \| |\n", STAY.strip()):
        assert mirrored(sentence) == ""


DENIALS = """
Kleiner Pleuraerguss links. | Kein kleiner Pleuraerguss links.
Kleine Verschattung rechts. | Keine kleine Verschattung rechts.
Derrame pleural. | Sin derrame pleural.
"""


@pytest.mark.parametrize("pair", DENIALS.strip().splitlines())
def test_denials_put_in_and_taken_away(pair: str) -> None:
    affirmed, absent = pair.split(" | ")
    assert denied(affirmed) == (absent,)
    assert denied(absent) == (affirmed,)


UNTURNED = """
Verdacht auf Pleuraerguss. | Kardiomegalie und Pleuraerguss. | Kein Erguss, aber Kardiomegalie.
Rückläufiger Erguss. | Posible derrame. | Cardiomegalia con derrame. | Sin derrame ni neumotórax.
"""


def test_denials_that_stay() -> None:
    for sentence in re.split(r" \| |\n", UNTURNED.strip()):
        assert denied(sentence) == ()
    assert denied("Kein Hinweis auf Pneumothorax.") == ("Pneumothorax.",)
    assert denied("Se observa derrame.") == ("No se observa derrame.",)
    assert denied("No se observa derrame.") == ("Derrame.",)


def test_abbreviations_end_no_sentence() -> None:
    text = "V. a. Pneumonie rechts. Z. n. Erguss bds. mit Atelektase. Herz normal."
    assert split_sentences(text) == [
        "V. a. Pneumonie rechts.",
        "Z. n. Erguss bds. mit Atelektase.",
        "Herz normal.",
    ]


def test_headings() -> None:
    german = "Klinische Angaben: Husten.\n\nBefund: Kein Erguss.\n\nBeurteilung: Unauffällig."
    assert [name for name, _ in split_sections(german)] == ["indication", "findings", "impression"]
    spanish = "Hallazgos: Sin derrame.\nImpresión: Normal.\nConclusión: Normal."
    assert [name for name, _ in split_sections(spanish)] == ["findings", "impression", "conclusion"]


def test_files_of_languages() -> None:
    english = rules("en")
    for language in LANGUAGES:
        own = rules(language)
        assert list(own.findings) == list(english.findings)
        for finding, (positive, negative) in own.prompts.items():
            assert positive
            assert negative
            for sentence in positive[:1] if finding in own.findings else ():
                assert own.findings[finding].search(sentence), (language, finding, sentence)
        assert not {"effusion", "derrame", "erguss", "pneumothorax"} & STOP
    with pytest.raises(ConfigError, match="'fr' is not one of: en, de, es"):
        prompts_for("fr", ["Edema"])
    assert prompts_for("de", ["Pneumothorax", "Dandruff"]) == {
        "Pneumothorax": (("Pneumothorax.",), ("Kein Pneumothorax.",))
    }
