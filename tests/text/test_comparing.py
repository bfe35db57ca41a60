from collections import Counter

import pytest

from cxrtext.phantom.studies import draw_studies
from cxrtext.text.comparing import comparison

CHANGE = {"new": "new", "more": "worse", "same": "unchanged", "less": "improved"}
CHANGE |= {"gone": "resolved", "": ""}

COMPARING = {
    "improved": [
        "Left effusion has decreased.",
        "Improved aeration of the lung bases.",
        "Heart size appears normal, improved from prior study.",
    ],
    "worse": [
        "Increasing cardiomegaly.",
        "Stable heart size, worsening edema.",
    ],
    "resolved": ["The pneumothorax has resolved.", "Interval removal of the chest tube."],
    "new": ["New line.", "A nodule is present, not seen on the prior exam.", "Newly seen edema."],
    "unchanged": [
        "No significant change since the prior study.",
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
    ],
}


@pytest.mark.parametrize(("said", "sentences"), COMPARING.items())
def test_comparing_words_and_words_that_only_look_like_them(
    said: str | None, sentences: list[str]
) -> None:
    assert {one: comparison(one) for one in sentences} == dict.fromkeys(sentences, said)


@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_sentences_of_drawn_follow_ups_are_told_by_what_they_compare(language: str) -> None:
    counts: Counter[tuple[bool, bool]] = Counter()
    for study in draw_studies(200, 3, language, follow_ups=True):
        for _, statements in study.report.sections():
            for one in statements:
                same = one.claim.name == "unchanged"
                said = "unchanged" if same else CHANGE[one.change[1]] or None
                counts[said is not None, said == comparison(one.text)] += 1
    assert counts[True, True] > 100  # there is something to tell
    assert counts[True, False] < 0.05 * counts[True, True]
    assert counts[False, False] < 0.01 * counts[False, True]
