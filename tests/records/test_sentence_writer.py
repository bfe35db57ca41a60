import io
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cxrtext.errors import DataError
from cxrtext.records import Sentence, SentenceWriter, read_sentences, read_table, write_sentences
from cxrtext.records.sentences import COLUMNS
from cxrtext.records.tables import ROW_GROUP

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


def test_floats_are_written_in_full(tmp_path: Path) -> None:
    write_sentences(tmp_path / "s.csv", SENTENCES)
    assert repr(0.1 + 0.2 - 0.1) in (tmp_path / "s.csv").read_text()


def test_older_tables_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{','.join(COLUMNS)}\ns1,findings,0,Clear.,2,-1.5,0.1\n")
    assert read_sentences(path) == [Sentence("s1", "findings", 0, "Clear.", 2, -1.5, 0.1)]


def test_a_stream_gets_the_same_bytes_as_a_file(tmp_path: Path) -> None:
    stream = io.StringIO(newline="")
    with SentenceWriter(stream) as writer:
        for sentence in SENTENCES:
            writer.add(sentence)
    write_sentences(tmp_path / "s.csv", SENTENCES)
    assert stream.getvalue().encode() == (tmp_path / "s.csv").read_bytes()


def test_parquet_has_row_groups_and_one_schema(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    count = 2 * ROW_GROUP + 5
    write_sentences(
        path, (Sentence(str(i), "findings", i, "a", 1, -1.0, 0.1) for i in range(count))
    )
    with pq.ParquetFile(path) as file:
        assert file.num_row_groups == 3
        assert file.metadata.num_rows == count
        assert str(file.schema_arrow.field("n_tokens").type) == "int64"
    write_sentences(path, [])
    assert pq.read_schema(path).names[-1] == "unknown"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_failed_writer_leaves_the_old_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"s.{ending}"
    write_sentences(path, SENTENCES)
    with pytest.raises(RuntimeError, match="stopped"), SentenceWriter(path) as writer:
        writer.add(SENTENCES[0])
        raise RuntimeError("stopped")
    assert read_sentences(path) == SENTENCES
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="not open"):
        writer.add(SENTENCES[0])


def test_a_wrong_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"s.txt: a table ends in .csv or .parquet"):
        SentenceWriter(tmp_path / "s.txt")
