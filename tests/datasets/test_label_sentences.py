"""Reports made of labels: every sentence says what the labels say, and nothing more."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cxrtext.datasets.checking import check_data
from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.datasets.importing.label_sentences import LabelSentences, _lists, corpus_sentences
from cxrtext.errors import ConfigError, DataError
from cxrtext.files import read_sealed
from cxrtext.records import read_labels, read_reports
from cxrtext.records.labels import CHEXPERT
from cxrtext.records.report_sources import MADE, made_of_labels
from cxrtext.text import study_sentences
from cxrtext.text.sides import sides_of
from tests.datasets import public_sets
from tests.datasets.public_sets import nih
from tests.datasets.written import load_table, save_table

FINDINGS = ("No Finding", "Cardiomegaly", "Edema", "Pleural Effusion", "Nodule")


def corpus(folder: Path, *sentences: str) -> str:
    rows = [{"study_id": f"s{n}", "report": text} for n, text in enumerate(sentences)]
    save_table(folder / "corpus.csv", rows)
    return str(folder / "corpus.csv")


@pytest.mark.parametrize("finding", _lists()["findings"])
def test_plain_sentences_say_one_finding(finding: str) -> None:
    made = LabelSentences([finding])
    for value in (1, 0):
        texts = {made.report({finding: value}, f"{n}") for n in range(60)}
        assert len(texts) >= 4
        for text in texts:
            (said,) = made.said(text)
            assert (said.finding, said.present, said.limited) == (finding, bool(value), False)


@pytest.mark.parametrize(
    "text",
    [
        "Small left pleural effusion.",  # a side
        "Stable cardiomegaly.",  # since when
        "Cardiomegaly and pleural effusion.",  # two findings
        "Possible pulmonary edema.",  # a doubt
        "XXXX nodule.",  # a word that was taken out
        "Nodule at the apex.",  # where
        "Pericardial effusion.",  # another finding
        "No pleural effusion or fracture.",  # of which there is no label
    ],
)
def test_a_sentence_that_says_more_or_less_is_not_taken(tmp_path: Path, text: str) -> None:
    taken = LabelSentences(FINDINGS, corpus_sentences(corpus(tmp_path, text)))
    plain = LabelSentences(FINDINGS)
    for labels in ({name: 1} for name in FINDINGS):
        for n in range(20):
            assert taken.report(labels, f"{n}") == plain.report(labels, f"{n}")
    for n in range(20):
        assert text not in taken.report(dict.fromkeys(FINDINGS, 0), f"{n}")


def test_sentences_of_the_corpus_are_said(tmp_path: Path) -> None:
    own = [f"{word} edema {seen}." for word in ("Pulmonary", "Lung") for seen in
           ("is seen", "is present", "is noted", "is identified")]  # fmt: skip
    made = LabelSentences(FINDINGS, corpus_sentences(corpus(tmp_path, *own, "Normal heart size.")))
    said = Counter(made.report({"Edema": 1}, f"{n}") for n in range(200))
    assert set(said) == set(own)
    assert made.report({"No Finding": 1, "Edema": None}, "a") == "Normal heart size."


def test_what_is_not_said_of_a_study() -> None:
    made = LabelSentences(["No Finding", "Lung Opacity", "Pneumonia", "Nodule", "multiple nodules"])
    assert made.without == ("multiple nodules",)
    for n in range(30):
        assert not made.report({"Pneumonia": -1, "Nodule": None}, f"{n}")
        # An opacity is not denied beside a pneumonia, nor one nodule beside several.
        assert made.said(made.report({"Pneumonia": 1, "Lung Opacity": 0}, f"{n}"))[0].present
        assert not made.report({"multiple nodules": 1, "Nodule": 0}, f"{n}")
        # Only "No Finding" says that all is normal, unless a finding is present.
        assert made.report({"No Finding": 1, "Pneumonia": 1}, f"{n}").count(".") == 1


def test_a_denial_of_two_findings_needs_both_absent(tmp_path: Path) -> None:
    both = [f"{no} edema or pleural effusion{seen}." for no in ("No", "No acute", "No focal") for
            seen in ("", " is seen")]  # fmt: skip
    made = LabelSentences(FINDINGS, corpus_sentences(corpus(tmp_path, *both)))
    said = {made.report({"Edema": 0, "Pleural Effusion": 0}, f"{n}") for n in range(60)}
    assert any(text in report for report in said for text in both)
    for n in range(60):
        (fact,) = made.said(made.report({"Edema": 0, "Pleural Effusion": None}, f"{n}"))
        assert (fact.finding, fact.present) == ("Edema", False)


SAID = ("Cardiomegaly is present.", "No pneumothorax or pleural effusion.", "The lungs are clear.",
        "Small left effusion.")  # fmt: skip


def made(tmp_path: Path, out: str, **options: Any) -> dict[str, str]:
    import_folder(tmp_path / "set", tmp_path / out, ImportOptions(**options))
    rows = load_table(tmp_path / out / "reports.csv")
    assert {row["source"] for row in rows} == {"labels"}
    return {row["study_id"]: row["report"] for row in rows}


def test_an_import_with_sentences_of_labels(tmp_path: Path) -> None:
    nih(tmp_path / "set")
    source = corpus(tmp_path, *SAID)
    reports = made(tmp_path, "out", sentences_from=source)
    labels = read_labels(tmp_path / "out/labels.csv", FINDINGS)
    assert set(reports) == set(labels) == {"00000001_000", "00000001_001", "00000002_000"}
    known = LabelSentences(list(load_table(tmp_path / "out/labels.csv")[0])[1:])
    for study in read_reports(tmp_path / "out/reports.csv"):
        own = read_labels(tmp_path / "out/labels.csv", tuple(known._entries))[study.study_id]
        said = [one.sentence for one in study_sentences(study)]
        facts = [fact for text in said for fact in known.said(text)]
        assert {f.finding for f in facts if f.present} == {n for n, v in own.items() if v == 1}
        assert {f.finding for f in facts if not f.present} <= {n for n, v in own.items() if v == 0}
        assert not any(map(sides_of, said))
    assert read_sealed(tmp_path / "out/import.json")["sentences_from"] == "reports"
    assert source not in (tmp_path / "out/import.json").read_text()
    # Drawn by study and seed.
    assert made(tmp_path, "again", sentences_from=source) == reports
    assert made(tmp_path, "other", sentences_from=source, seed=1) != reports
    assert made(tmp_path, "plain", sentences_from="plain") != reports
    with pytest.raises(DataError, match="imported with another sentences_from"):
        import_folder(tmp_path / "set", tmp_path / "out")
    # The check of the data says where they are from.
    assert made_of_labels(tmp_path / "out/reports.csv") == MADE
    (problem,) = (
        one for one in check_data(tmp_path / "out").problems if one.kind.code == "reports-of-labels"
    )
    assert MADE in problem.kind.advice


@pytest.mark.parametrize(
    ("make", "says"),
    [(public_sets.chexpert_5x200, CHEXPERT[2]), (public_sets.vindr, "Cardiomegaly"),
     (public_sets.padchest, "Cardiomegaly")],
)  # fmt: skip
def test_other_sets(make: Any, says: str, tmp_path: Path) -> None:
    """CheXpert's impressions and PadChest's Spanish reports are replaced."""
    make(tmp_path / "set")
    reports = made(tmp_path, "out", sentences_from="plain")
    present = [
        row["study_id"] for row in load_table(tmp_path / "out/labels.csv") if row[says] == "1"
    ]
    words = ("cardiomegaly", "heart")
    assert present
    assert all(any(word in reports[study].lower() for word in words) for study in present)


def test_what_is_refused(tmp_path: Path) -> None:
    nih(tmp_path / "set")
    for options, error, why in (
        ({"sentences_from": "plian"}, DataError, "plian: no such table or folder of reports"),
        ({"sentences_from": "plain", "reports": tmp_path}, ConfigError, "goes without --reports"),
    ):
        with pytest.raises(error, match=why):
            import_folder(tmp_path / "set", tmp_path / "out", ImportOptions(**options))
    assert not (tmp_path / "out").exists()
    save_table(tmp_path / "bare/manifest.csv", [{"image": "a.png", "study_id": "1"}])
    public_sets.save_picture(tmp_path / "bare/a.png")
    save_table(tmp_path / "bare/labels.csv", [{"study_id": "1", "Edema": "-1"}])
    with pytest.raises(DataError, match="no label is 1 or 0 of a finding that has sentences"):
        import_folder(tmp_path / "bare", tmp_path / "odd", ImportOptions(sentences_from="plain"))
    (tmp_path / "bare/labels.csv").unlink()
    with pytest.raises(DataError, match="has no labels, of which --sentences-from makes reports"):
        import_folder(tmp_path / "bare", tmp_path / "out", ImportOptions(sentences_from="plain"))
