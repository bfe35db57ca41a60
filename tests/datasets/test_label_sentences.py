"""Reports made of labels: every sentence says what the labels say, and nothing more."""

from pathlib import Path
from typing import Any

import pytest

from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.datasets.importing.label_sentences import LabelSentences, _lists
from cxrtext.errors import ConfigError, DataError
from cxrtext.files import read_sealed
from cxrtext.records import read_labels, read_reports
from cxrtext.records.report_sources import MADE, made_of_labels
from cxrtext.text import study_sentences
from cxrtext.text.assertions import Assertion
from cxrtext.text.rules import rules_of
from cxrtext.text.sides import side_of, sides_of
from cxrtext.text.wording import mentions
from tests.datasets import public_sets
from tests.datasets.public_sets import nih
from tests.datasets.written import load_table, save_table


def facts(text: str, *findings: str) -> tuple[Assertion, ...]:
    """What a text says of some findings."""
    forms = {word: f for f in findings for word in _lists()["findings"][f]["words"].split()}
    affirmed, denied = ({forms[w] for w in words & forms.keys()} for words in mentions(text))
    limited = rules_of(text).patterns["limited"].search(text) is not None
    return (
        *(Assertion(name, True, side_of(text)) for name in sorted(affirmed)),
        *(Assertion(name, False, limited=limited) for name in sorted(denied - affirmed)),
    )


@pytest.mark.parametrize("finding", _lists()["findings"])
def test_plain_sentences_say_one_finding(finding: str) -> None:
    made = LabelSentences([finding])
    for value in (1, 0):
        texts = {made.report({finding: value}, f"{n}") for n in range(60)}
        assert len(texts) >= 4
        for text in texts:
            (said,) = facts(text, finding)
            assert (said.finding, said.present, said.limited) == (finding, bool(value), False)


def test_what_is_not_said_of_a_study() -> None:
    made = LabelSentences(["No Finding", "Lung Opacity", "Pneumonia", "Nodule", "multiple nodules"])
    assert made.without == ("multiple nodules",)
    for n in range(30):
        assert not made.report({"Pneumonia": -1, "Nodule": None}, f"{n}")
        # An opacity is not denied beside a pneumonia, nor one nodule beside several.
        text = made.report({"Pneumonia": 1, "Lung Opacity": 0}, f"{n}")
        assert [one.present for one in facts(text, "Pneumonia", "Lung Opacity")] == [True]
        assert not made.report({"multiple nodules": 1, "Nodule": 0}, f"{n}")
        # Only "No Finding" says that all is normal, unless a finding is present.
        assert made.report({"No Finding": 1, "Pneumonia": 1}, f"{n}").count(".") == 1


def made(tmp_path: Path, out: str, **options: Any) -> dict[str, str]:
    import_folder(tmp_path / "set", tmp_path / out, ImportOptions(label_sentences=True, **options))
    rows = load_table(tmp_path / out / "reports.csv")
    assert {row["source"] for row in rows} == {"labels"}
    return {row["study_id"]: row["report"] for row in rows}


def test_an_import_with_sentences_of_labels(tmp_path: Path) -> None:
    nih(tmp_path / "set")
    reports = made(tmp_path, "out")
    known = list(_lists()["findings"].keys() & load_table(tmp_path / "out/labels.csv")[0].keys())
    labels = read_labels(tmp_path / "out/labels.csv", tuple(known))
    assert set(reports) == set(labels) == {"00000001_000", "00000001_001", "00000002_000"}
    for study in read_reports(tmp_path / "out/reports.csv"):
        own = labels[study.study_id]
        said = [one.sentence for one in study_sentences(study)]
        told = [fact for text in said for fact in facts(text, *known)]
        assert {f.finding for f in told if f.present} == {n for n, v in own.items() if v == 1}
        assert {f.finding for f in told if not f.present} <= {n for n, v in own.items() if v == 0}
        assert not any(map(sides_of, said))
    assert read_sealed(tmp_path / "out/import.json")["sentences_from"] == "plain"
    assert made(tmp_path, "again") == reports
    with pytest.raises(DataError, match="imported with another sentences_from"):
        import_folder(tmp_path / "set", tmp_path / "out")
    assert made_of_labels(tmp_path / "out/reports.csv") == MADE


def test_what_is_refused(tmp_path: Path) -> None:
    nih(tmp_path / "set")
    options = ImportOptions(label_sentences=True, reports=tmp_path)
    with pytest.raises(ConfigError, match="leave --reports out"):
        import_folder(tmp_path / "set", tmp_path / "out", options)
    assert not (tmp_path / "out").exists()
    save_table(tmp_path / "bare/manifest.csv", [{"image": "a.png", "study_id": "1"}])
    public_sets.save_picture(tmp_path / "bare/a.png")
    save_table(tmp_path / "bare/labels.csv", [{"study_id": "1", "Edema": "-1"}])
    with pytest.raises(DataError, match="no finding with sentences has a label 1 or 0"):
        import_folder(tmp_path / "bare", tmp_path / "odd", ImportOptions(label_sentences=True))
    (tmp_path / "bare/labels.csv").unlink()
    with pytest.raises(DataError, match="has no labels for --label-sentences to make reports from"):
        import_folder(tmp_path / "bare", tmp_path / "out", ImportOptions(label_sentences=True))
