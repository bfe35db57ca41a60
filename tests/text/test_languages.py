"""What sentences say of findings in each language, and mirrors of German and Spanish ones."""

import re

import pytest

from cxrtext.errors import ConfigError
from cxrtext.text import split_sections, split_sentences
from cxrtext.text.finding_words import STOP
from cxrtext.text.labelling import NO_FINDING, Label, label_report, sentence_labels
from cxrtext.text.rules import LANGUAGES, language_of, prompts_for, rules
from cxrtext.text.sides import mirrored

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
Findings are not consistent with pulmonary edema. | -edema
Atelectasis rather than pneumonia. | +atelectasis -pneumonia
The effusion has improved and is now gone. | -effusion
Near-complete resolution of the right effusion. | +effusion r
Endotracheal tube removed. | -devices
-ve for pneumothorax. | -pneumothorax
Ø PTX, Ø effusion, RLL PNA. | -pneumothorax -effusion +pneumonia r +opacity r
Follow up to exclude underlying mass. | !mass
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
HERZ NICHT VERGROESSERT, KEIN LUNGENOEDEM. | -heart -edema
Hinweise auf Erguss oder Pneumothorax finden sich nicht. | -effusion -pneumothorax
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
FRENCH = """
Pas d'épanchement pleural ni de pneumothorax. | -effusion -pneumothorax
Épanchement pleural gauche abondant. | +effusion l
Absence de condensation. | -consolidation
Opacité du lobe inférieur droit. | +opacity r
Cœur de taille normale. | -heart
Cardiomégalie modérée. | +heart
L'épanchement n'est plus visible. | -effusion
Il n'est pas mis en évidence de pneumothorax. | -pneumothorax
Possible pneumopathie. | ?pneumonia ?opacity
Poumons clairs. | -opacity -consolidation -pneumonia -atelectasis -edema -nodule -mass
Sonde d'intubation en place. | +devices
"""
PORTUGUESE = """
Ausência de derrame pleural. | -effusion
Derrame pleural à esquerda. | +effusion l
Área cardíaca aumentada. | +heart
NAO SE OBSERVA PNEUMOTORAX. | -pneumothorax
Desaparecimento do derrame pleural, s/ consolid. | -effusion -consolidation
Sem pneumotórax. | -pneumothorax
Consolidação no lobo inferior direito. | +consolidation r +opacity r
Não se pode excluir pneumonia. | ?pneumonia ?opacity
Campos pulmonares livres. | -opacity -consolidation -pneumonia -atelectasis -edema -nodule -mass
"""
CASES = [
    (language, *line.split(" |"))
    for language, lines in (
        *(("en", ENGLISH), ("de", GERMAN), ("es", SPANISH)),
        *(("fr", FRENCH), ("pt", PORTUGUESE)),
    )
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
    for foreign in ("两肺未见异常。", "Geen pneumothorax.", "Non si osserva versamento pleurico."):
        assert language_of(foreign) == ""
        assert sentence_labels(foreign) == {}
        assert label_report([foreign, "Normal chest."])[NO_FINDING].value is None


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
    with pytest.raises(ConfigError, match="'it' is not one of: en, de, es, fr, pt"):
        prompts_for("it", ["Edema"])
    assert prompts_for("de", ["Pneumothorax", "Dandruff"]) == {
        "Pneumothorax": (("Pneumothorax.",), ("Kein Pneumothorax.",))
    }
