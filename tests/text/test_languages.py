"""German and Spanish reports: what their sentences say of findings, and their false forms."""

import pytest

from cxrtext.errors import ConfigError
from cxrtext.text import split_sections, split_sentences
from cxrtext.text.finding_words import STOP
from cxrtext.text.labelling import sentence_labels
from cxrtext.text.rules import LANGUAGES, language_of, prompts_for, rules
from cxrtext.text.turning import denied, mirrored
from cxrtext.text.wording import mentions, wording

# A sentence, and what it says: + there, - not there, ? hedged; sides l, r, b.
GERMAN = """
Kein Pleuraerguss. | -effusion
Kleiner Pleuraerguss links. | +effusion l
Beidseitige Pleuraergüsse. | +effusion b
Pleuraergüsse bds., rechts mehr als links. | +effusion b
Rechtsseitiger Erguss. | +effusion r
Kein Nachweis eines Pleuraergusses. | -effusion
Kein größerer Erguss. | -effusion
Ein Pleuraerguss ist nicht abgrenzbar. | -effusion
Fraglich kleiner Randwinkelerguss rechts. | ?effusion r
Randwinkel beidseits frei. | -effusion
Kein Erguss, kein Pneumothorax. | -effusion -pneumothorax
Kein Hinweis auf Pneumothorax. | -pneumothorax
Kein Anhalt für einen Pneumothorax. | -pneumothorax
Mantelpneumothorax rechts apikal. | +pneumothorax r
Der vorbestehende Pneumothorax ist nicht mehr nachweisbar. | -pneumothorax
Pneumothorax ausgeschlossen. | -pneumothorax
Ein kleiner Pneumothorax ist nicht sicher auszuschließen. | ?pneumothorax
Herz normal groß. | -heart
Herzschatten nicht vergrößert. | -heart
Das Herz ist deutlich vergrößert. | +heart
Kardiomegalie. | +heart
Grenzwertig vergrößertes Herz. | ?heart
Keine pulmonalvenöse Stauung. | -edema
Geringe Stauungszeichen. | +edema
Keine Stauung bei Kardiomegalie. | -edema +heart
Infiltrat im linken Unterlappen. | +opacity l
Keine pneumonischen Infiltrate. | -pneumonia -opacity -consolidation
V. a. Pneumonie im rechten Oberlappen. | ?pneumonia r ?opacity r
Z. n. Pneumonie. |
Verschattung links basal, DD Atelektase. | +opacity l ?atelectasis l
Plattenatelektasen basal beidseits. | +atelectasis b
Dystelektase rechts basal, links kein Erguss. | +atelectasis r -effusion l
Die Lunge ist frei. | -opacity -consolidation -pneumonia -atelectasis -edema -nodule -mass
Rundherd im rechten Oberlappen, am ehesten verkalktes Granulom. | +nodule r ?granuloma r
Kein Rundherd, keine Raumforderung. | -nodule -mass
Lungenemphysem. | +emphysema
Alte Rippenfrakturen links. | +fracture l
Keine Fraktur. | -fracture
ZVK von rechts mit Spitze in der V. cava superior. | +devices r
Herzschrittmacher links. | +devices l
Große Hiatushernie. | +hernia
Unveränderte Lungenfibrose. | +fibrosis
Keine Befundänderung des Ergusses links. | +effusion l
"""
SPANISH = """
Sin derrame pleural. | -effusion
No se observa derrame pleural. | -effusion
Pequeño derrame pleural izquierdo. | +effusion l
Derrame pleural bilateral. | +effusion b
Derrame pleural derecho, sin cambios. | +effusion r
No hay derrame pleural ni neumotórax. | -effusion -pneumothorax
Senos costofrénicos libres. | -effusion
Posible derrame pleural derecho. | ?effusion r
Pinzamiento del seno costofrénico izquierdo, probable derrame. | ?effusion l
Sin evidencia de neumotórax. | -pneumothorax
Se descarta neumotórax. | -pneumothorax
Neumotórax apical derecho. | +pneumothorax r
No se descarta pequeño neumotórax izquierdo. | ?pneumothorax l
Neumotórax no visible. | -pneumothorax
Cardiomegalia. | +heart
Cardiomegalia leve sin derrame. | +heart -effusion
Sin cardiomegalia. | -heart
Silueta cardíaca de tamaño normal. | -heart
Silueta cardíaca aumentada de tamaño. | +heart
Corazón no aumentado de tamaño. | -heart
Consolidación en lóbulo inferior izquierdo. | +consolidation l +opacity l
Sin consolidaciones. | -consolidation
Infiltrado en LSD, sugestivo de neumonía. | +opacity r ?pneumonia r
Neumonía basal derecha. | +pneumonia r +opacity r
Opacidad basal izquierda, a descartar neumonía. | +opacity l ?pneumonia l
Sin signos de neumonía. | -pneumonia
Atelectasias basales bilaterales. | +atelectasis b
Atelectasia laminar en base izquierda. | +atelectasis l
No se identifican atelectasias. | -atelectasis
Pulmones sin alteraciones. | -opacity -consolidation -pneumonia -atelectasis -edema -nodule -mass
Edema pulmonar. | +edema
Signos de congestión, sin edema franco. | +edema
Nódulo pulmonar en lóbulo superior derecho. | +nodule r
No se observan nódulos ni masas. | -nodule -mass
Granuloma calcificado derecho. | +granuloma r
Cambios por enfisema. | +emphysema
Fibrosis pulmonar. | +fibrosis
Hernia de hiato. | +hernia
Fracturas costales antiguas derechas. | +fracture r
Sin fracturas. | -fracture
Catéter venoso central derecho. | +devices r
Marcapasos izquierdo. | +devices l
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
VALUES = {"+": 1, "-": 0, "?": -1}
CASES = [
    (language, *line.split(" |"))
    for language, lines in (("de", GERMAN), ("es", SPANISH))
    for line in lines.strip().splitlines()
]


@pytest.mark.parametrize(("language", "sentence", "says"), CASES)
def test_what_a_sentence_says(language: str, sentence: str, says: str) -> None:
    expected: dict[str, tuple[int, str]] = {}
    last = ""
    for word in says.split():
        if word in SIDES:
            expected[last] = (expected[last][0], SIDES[word])
        else:
            last = NAMES.get(word[1:], word[1:].capitalize())
            expected[last] = (VALUES[word[0]], "")
    found = sentence_labels(sentence)
    assert {name: (found[name].value, found[name].side) for name in expected} == expected
    assert {name for name, one in found.items() if one.value} <= {*expected}


def test_the_language_of_a_sentence() -> None:
    assert {language_of(sentence) for language, sentence, _ in CASES if language == "de"} <= {
        "de",
        "en",  # "Pneumothorax." is both
    }
    for sentence in ("No pneumothorax.", "Edema.", "Old granuloma in the left base.", "XXXX.", ""):
        assert language_of(sentence) == "en"
    assert language_of("No hay neumotórax.") == "es"
    assert language_of("Kein Pneumothorax.") == "de"


def test_words_with_letters_of_the_language() -> None:
    assert mentions("Beidseitige Pleuraergüsse.")[0] == {"pleuraergüsse"}
    assert mentions("Sin neumotórax.") == (set(), {"neumotórax"})
    assert wording("Verdacht auf Pleuraerguss.") == wording("Posible derrame.") == "uncertain"


@pytest.mark.parametrize(
    ("sentence", "mirror"),
    [
        ("Kleiner linksseitiger Pleuraerguss.", "Kleiner rechtsseitiger Pleuraerguss."),
        ("Infiltrat im rechten Unterlappen.", "Infiltrat im linken Unterlappen."),
        ("Linker Pleuraerguss.", "Rechter Pleuraerguss."),
        ("Derrame pleural izquierdo.", "Derrame pleural derecho."),
        ("Consolidación en la base derecha.", "Consolidación en la base izquierda."),
        ("Opacidad en LSI.", "Opacidad en LSD."),
    ],
)
def test_sides_exchanged(sentence: str, mirror: str) -> None:
    assert mirror in mirrored(sentence)
    assert sentence in mirrored(mirror)


def test_levels_exchanged() -> None:
    assert "Infiltrat im linken Oberlappen." in mirrored("Infiltrat im linken Unterlappen.")
    assert mirrored("Opacidad en el lóbulo superior.") == ("Opacidad en el lóbulo inferior.",)


@pytest.mark.parametrize(
    "sentence",
    [
        "Pleuraergüsse beidseits.",
        "Kein Erguss links.",
        "Verdacht auf Erguss links.",
        "Derrame pleural bilateral.",
        "Sin derrame izquierdo.",
        "Atelectasia de la língula.",
    ],
)
def test_sides_that_stay(sentence: str) -> None:
    assert mirrored(sentence) == ()


@pytest.mark.parametrize(
    ("affirmed", "absent"),
    [
        ("Pleuraerguss.", "Kein Pleuraerguss."),
        ("Kleiner Pleuraerguss links.", "Kein kleiner Pleuraerguss links."),
        ("Pneumonie.", "Keine Pneumonie."),
        ("Kleine Verschattung rechts.", "Keine kleine Verschattung rechts."),
        ("Derrame pleural.", "Sin derrame pleural."),
        ("Se observa derrame pleural.", "No se observa derrame pleural."),
    ],
)
def test_denials_put_in_and_taken_away(affirmed: str, absent: str) -> None:
    assert denied(affirmed) == (absent,)
    back = affirmed.removeprefix("Se observa ")
    assert denied(absent) == (back[:1].upper() + back[1:],)


def test_denials_that_stay() -> None:
    for sentence in (
        "Verdacht auf Pleuraerguss.",
        "Kardiomegalie und Pleuraerguss.",
        "Kein Erguss, aber Kardiomegalie.",
        "Posible derrame.",
        "Cardiomegalia con derrame.",
        "Sin derrame ni neumotórax.",
    ):
        assert denied(sentence) == ()
    assert denied("Kein Hinweis auf Pneumothorax.") == ("Pneumothorax.",)


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
            for sentence in positive if finding in own.findings else ():
                assert own.findings[finding].search(sentence), (language, finding, sentence)
        assert not {"effusion", "derrame", "erguss", "pneumothorax"} & STOP
    with pytest.raises(ConfigError, match="'fr' is not one of: en, de, es"):
        prompts_for("fr", ["Edema"])
    assert prompts_for("de", ["Pneumothorax", "Dandruff"]) == {
        "Pneumothorax": (("Pneumothorax.",), ("Kein Pneumothorax.",))
    }
