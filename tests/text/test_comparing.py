import pytest

from cxrtext.text.comparing import comparison

COMPARING = {
    "improved": [
        "Left effusion has decreased.",
        "Improved aeration of the lung bases.",
        "Heart size appears normal, improved from prior study.",
        "Pleuraerguss links, rückläufig zur Voraufnahme.",
        "Derrame pleural izquierdo, con mejoría respecto al estudio previo.",
    ],
    "worse": [
        "Increasing cardiomegaly.",
        "Stable heart size, worsening edema.",
        "Infiltrat im rechten Unterlappen, progredient im Verlauf.",
        "Edema pulmonar, en progresión.",
    ],
    "resolved": [
        "The pneumothorax has resolved.",
        "Interval removal of the chest tube.",
        "Pleuraerguss nicht mehr nachweisbar.",
        "Ya no se observa el derrame pleural previo.",
    ],
    "new": [
        "New line.",
        "A nodule is present, not seen on the prior exam.",
        "Newly seen edema.",
        "Pneumothorax rechts, neu zur Voraufnahme.",
        "Neumotórax derecho, de nueva aparición.",
    ],
    "unchanged": [
        "No significant change since the prior study.",
        "Befund unverändert zur Voraufnahme.",
        "Sin cambios significativos respecto al estudio previo.",
        "No new infiltrate.",
        "The effusion has not increased.",
        "Again noted is a calcified granuloma.",
    ],
    None: [
        "Increased density in the left base.",
        "Lung volumes are mildly decreased.",
        "Hemodynamically stable.",
        "Degenerative changes of the spine.",
        "Findings of prior granulomatous disease.",
        "Follow up until resolved.",
        "Edema is worse on the left.",
        "Kein Pleuraerguss.",
        "No se observa derrame pleural.",
    ],
}


@pytest.mark.parametrize(("said", "sentences"), COMPARING.items())
def test_comparing_words_and_words_that_only_look_like_them(
    said: str | None, sentences: list[str]
) -> None:
    assert {one: comparison(one) for one in sentences} == dict.fromkeys(sentences, said)
