from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.language import read_corpus


def test_the_sentences_of_each_study_in_order(reports: Path) -> None:
    corpus = read_corpus(reports)
    assert [[s.sentence for s in study] for study in corpus.studies] == [
        ["The lungs are clear.", "No pneumothorax.", "No pneumothorax."],
        ["There is a small left pleural effusion, new."],
        [],
        [],
        ["Heart size is normal.", "The lungs are clear."],
        ["No pneumothorax.", "The lungs are clear."],
    ]
    assert (corpus.with_text, corpus.rejected, len(corpus.sentences)) == (4, 0, 8)
    assert corpus.sentences[2].section == "impression"


def test_bad_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    path.write_bytes(
        b"study_id,report\ns1,Clear.\ns2,\xff\xfe broken\ns3,Normal.,too many\ns1,Other.\n"
        b"s1,Clear.\ns4,Done.\n"
    )
    corpus = read_corpus(path)
    assert [s.sentence for s in corpus.sentences] == ["Clear.", "Done."]
    assert (len(corpus.studies), corpus.rejected) == (2, 3)


def test_no_text_is_an_error_that_quotes_none(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    path.write_text("study_id,indication\ns1,Fever of Zebulon.\ns2,\n")
    with pytest.raises(DataError, match="no report has text .*reports read: 2") as error:
        read_corpus(path)
    assert "Zebulon" not in str(error.value)
    with pytest.raises(DataError, match="no such file"):
        read_corpus(tmp_path / "none.csv")
