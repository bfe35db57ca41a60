"""German and Spanish reports, against the states and the English data set."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from cxrtext.phantom import write_phantoms
from cxrtext.phantom.sentences.grammar import phrases_of
from cxrtext.phantom.studies import PhantomStudy, draw_studies
from cxrtext.phantom.tables import labels_from_state, labels_from_statements
from cxrtext.phantom.truth import read_truth
from cxrtext.records import CHEX5, read_table
from tests.phantom.conftest import statements, told

DRAWN = {language: draw_studies(300, 23, language) for language in ("de", "es")}
LANGUAGES = pytest.mark.parametrize(("language", "studies"), list(DRAWN.items()), ids=list(DRAWN))

SIDES = {"de": r"(\brecht)|(\blink)", "es": r"(derech|dextro|\bL[IS]D\b)|(izquierd|\bL[IS]I\b)"}
ENGLISH = re.compile(
    r"\b(the|is|are|of|at|to|there|with|without|and|or|right|left|both|lungs?|small|seen|worse|"
    r"lobe|since|woman|man|apicolateral|basilar|single|dual|\dth|line)\b",
    re.IGNORECASE,
)


@LANGUAGES
def test_every_sentence_is_true_and_in_its_language(
    language: str, studies: list[PhantomStudy]
) -> None:
    assert all(study.report.language == language for study in studies)
    for study, statement in told(studies):
        text = statement.text
        assert statement.claim.holds(study.patient.state), text
        assert re.fullmatch(r"[A-ZÍÜ0-9][^\[\]{}|]*[^ ,;.]\.", text), text
        assert not re.search(r"  | [,.;]|,,|\b(\w+) \1\b", text), text
        assert not ENGLISH.search(text), text
    for report in (study.report for study in studies):
        asked = f"{report.indication} {report.comparison}"
        assert not ENGLISH.search(asked), asked
        assert not set(asked) & set("[]{}|"), asked


@LANGUAGES
def test_sides_are_those_of_the_claim(language: str, studies: list[PhantomStudy]) -> None:
    """The first side of a sentence is that of its claim, of which the middle lobe needs none."""
    sides = []
    plain = (one for _, whole in told(studies) for one in whole.parts or (whole,))
    for one in plain:
        name = one.claim.name
        if one.change[1] == "gone" or "tube" in name or " + " in name:
            continue  # of an earlier study; the main bronchus of a tube; two claims
        found = re.findall(SIDES[language], one.text, re.IGNORECASE)
        said = ["right" if right else "left" for right, _ in found]
        claimed = re.findall("right|left", name)[:1]
        if claimed and (said or "middle lobe" not in name):
            assert said[:1] == claimed, one
            sides += claimed
        elif "lingula" not in name:
            assert len(set(said)) != 1, one
    assert min(sides.count("right"), sides.count("left")) > 150


@LANGUAGES
def test_labels_agree_with_the_states(language: str, studies: list[PhantomStudy]) -> None:
    heard: Counter[tuple[str, int | None]] = Counter()
    for study in studies:
        shown = labels_from_state(study.patient.state)
        said = labels_from_statements(statements(study), language)
        for name in CHEX5:
            assert said[name] in (shown[name], -1, None), (study.report, name)
            heard[name, said[name]] += 1
    # A finding is named by each report that has it, though a pneumonia often as a consolidation.
    for name in set(CHEX5) - {"Pneumonia"}:
        there = sum(study.patient.state.labels()[name] for study in studies)
        assert heard[name, 1] + heard[name, -1] == there, name
    assert min(heard["Pneumonia", value] for value in (-1, 0, 1)) > 5


@pytest.mark.parametrize("language", list(DRAWN))
def test_there_is_a_phrasing_for_each_kind_of_the_english_ones(language: str) -> None:
    english, own = phrases_of("en"), phrases_of(language)
    assert set(own) == set(english)
    for section in set(english) - {"words", "misspellings", "agreement", "synonyms"}:
        kinds = {kind for kind in english[section] if not kind.endswith(" before")}
        assert set(own[section]) == kinds, section
    assert set(english["synonyms"]) < set(own["synonyms"])


def test_only_words_depend_on_the_language(tmp_path: Path) -> None:
    english, german = tmp_path / "en", tmp_path / "de"
    write_phantoms(english, studies=12, size=64, workers=1)
    write_phantoms(german, studies=12, size=64, workers=1, language="de")
    assert "language" not in json.loads((english / "phantom.json").read_text())
    for name in ("manifest.csv", "labels.csv", *(f"images/s{n:06d}.png" for n in range(1, 13))):
        assert (german / name).read_bytes() == (english / name).read_bytes(), name
    boxes = [json.loads((out / "boxes.json").read_text()) for out in (english, german)]
    for box in (box for drawn in boxes for box in drawn["annotations"]):
        del box["label_text"]
    assert boxes[0]["annotations"] == boxes[1]["annotations"]
    known = read_truth(german)
    assert known is not None
    said = {row["sentence"] for row in read_table(german / "truth.csv").rows}
    assert set(known.claims) <= said
