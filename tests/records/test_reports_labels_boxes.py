"""Reports, sentences, labels and boxes, read and written."""

import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import pyarrow.parquet as pq
import pytest

from cxrtext.errors import DataError
from cxrtext.records import (
    Rejects,
    Sentence,
    SentenceWriter,
    read_labels,
    read_sentences,
    read_table,
    write_table,
)
from cxrtext.records.sentences import COLUMNS
from cxrtext.records.tables import ROW_GROUP


def save_sentences(target: Path | TextIO, sentences: Iterable[Sentence]) -> None:
    with SentenceWriter(target) as writer:
        for sentence in sentences:
            writer.add(sentence)


def test_labels(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("study_id,Edema,Pneumonia\ns1,1.0,-1\ns2,0,\n")
    labels = read_labels(path)
    assert labels["s1"]["Edema"] == 1
    assert labels["s1"]["Pneumonia"] == -1
    assert labels["s2"] == {
        "Cardiomegaly": None, "Edema": 0, "Pleural Effusion": None, "Pneumonia": None,
        "Pneumothorax": None,
    }  # fmt: skip
    path.write_text("study_id,Edema,other\n s1 ,1,a\ns1,1.0,b\ns2,0,c\n")
    assert list(read_labels(path, ("Edema",))) == ["s1", "s2"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("Edema\ns1,yes\n", "row 1, column Edema: 'yes' is not a label; labels are 1, 0"),
        ("Other\ns1,1\n", "no label column"),
        ("Edema\ns1,1\ns2,0\ns1,0\n", "rows 1 and 3: study_id 's1' has two different rows of lab"),
        ("Edema\ns1,1\n ,0\n", "row 2: it has an empty study_id"),
    ],
)
def test_wrong_labels_are_refused(tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "l.csv").write_text(f"study_id,{table}")
    with pytest.raises(DataError, match=says):
        read_labels(tmp_path / "l.csv")


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("log_likelihood", "5.0", "log_likelihood 5 is above 0"),
        ("n_tokens", "-3", "n_tokens '-3' is not a whole number of at least 0"),
        ("n_tokens", "2.5", "n_tokens '2.5' is not a whole number"),
        ("position", "-1", "position '-1' is not a whole number"),
        ("unknown", "-1", "unknown '-1' is not a whole number"),
        *(("eta", value, f"eta {value} is not between") for value in ("0", "1", "1.5", "-0.1")),
        *(("eta", value, "eta '.*' is not a number") for value in ("nan", "none")),
    ],
)
def test_a_number_out_of_its_range_is_refused(
    tmp_path: Path, column: str, value: str, says: str
) -> None:
    path = tmp_path / "s.csv"
    save_sentences(path, [Sentence("s1", "findings", 0, "Clear.", 3, -1.5, 0.1)])
    table = read_table(path)
    write_table(path, table.columns, [{**table.rows[0], column: value}])
    with pytest.raises(DataError, match=f"row 1: {says}"):
        read_sentences(path)


def test_rejects_are_listed_and_limited(tmp_path: Path) -> None:
    rejects = Rejects(limit=1)
    rejects.add("a.png", "a.png: not an image")
    listed = rejects.write(tmp_path / "out.csv")
    assert listed == tmp_path / "out.csv.rejected.csv"
    assert read_table(listed).rows == [{"item": "a.png", "reason": "a.png: not an image"}]
    with pytest.raises(DataError, match="2 bad items, more than --max-rejected 1"):
        rejects.add("b.png", "b.png: too short")
    assert Rejects().write(tmp_path / "out.csv") is None
    assert not listed.exists()


SENTENCES = [
    Sentence("s1", "findings", 0, 'Clear, "as"\r\nseen.', 8, -7.1, 0.1 + 0.2 - 0.1),
    Sentence("s1", "impression", 0, "=1\rNormal é.", 3, -1e-3, 0.19),
    Sentence("s1", "impression", 1, "Норма.", 2, -1.0, None, 1),
]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_likelihood_of_each_piece_stands_at_the_end(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "new" / f"s.{ending}"
    with SentenceWriter(path) as writer:
        for sentence in [*SENTENCES, Sentence("s2", "findings", 0, "x", 0, 0.0, 0.1)]:
            writer.add(sentence)
        assert not path.exists()
    table = read_table(path)
    assert table.columns == (*COLUMNS, "log_likelihood_per_token", "unknown")
    cells = [row["log_likelihood_per_token"] for row in table.rows]
    assert math.isclose(float(cells[0]), -7.1 / 8, rel_tol=1e-15)
    assert cells[3] == ""
    assert read_sentences(path)[:3] == SENTENCES
    assert list(path.parent.iterdir()) == [path]


def test_older_tables_are_still_read_and_a_stream_gets_the_bytes_of_a_file(tmp_path: Path) -> None:
    path, stream = tmp_path / "s.csv", io.StringIO(newline="")
    path.write_text(f"{','.join(COLUMNS)}\ns1,findings,0,Clear.,2,-1.5,0.1\n")
    assert read_sentences(path) == [Sentence("s1", "findings", 0, "Clear.", 2, -1.5, 0.1)]
    save_sentences(stream, SENTENCES)
    save_sentences(path, SENTENCES)
    assert stream.getvalue().encode() == path.read_bytes()


def test_parquet_has_row_groups_and_one_schema_and_other_endings_are_no_tables(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.parquet"
    count = 2 * ROW_GROUP + 5
    save_sentences(path, (Sentence(str(i), "findings", i, "a", 1, -1.0, 0.1) for i in range(count)))
    with pq.ParquetFile(path) as file:
        assert file.num_row_groups == 3
        assert file.metadata.num_rows == count
        assert str(file.schema_arrow.field("n_tokens").type) == "int64"
    save_sentences(path, [])
    assert pq.read_schema(path).names[-1] == "unknown"
    with pytest.raises(DataError, match=r"s.txt: a table ends in .csv or .parquet"):
        SentenceWriter(tmp_path / "s.txt")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_failed_writer_leaves_the_old_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"s.{ending}"
    save_sentences(path, SENTENCES)
    with pytest.raises(RuntimeError, match="stopped"), SentenceWriter(path) as writer:
        writer.add(SENTENCES[0])
        raise RuntimeError("stopped")
    assert read_sentences(path) == SENTENCES
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="not open"):
        writer.add(SENTENCES[0])
