import codecs
import csv
import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Sentence, Study, open_source
from cxrtext.records.rows import ROW_LIMIT, TableRows

CANARY = "zebrafish"


def items(path: Path, content: bytes | str) -> list[Study | Sentence | LeftOut]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(open_source(path))


def studies(found: list[Study | Sentence | LeftOut]) -> list[tuple[str, str]]:
    return [(item.study_id, item.report) for item in found if isinstance(item, Study)]


def bad(found: list[Study | Sentence | LeftOut]) -> list[LeftOut]:
    return [item for item in found if isinstance(item, LeftOut)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le-mark", "utf-16-be-mark"])
def test_marked_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    text = "study_id,report\n1,Épanchement.\n"
    marks = {"utf-16-le-mark": codecs.BOM_UTF16_LE, "utf-16-be-mark": codecs.BOM_UTF16_BE}
    content = marks.get(encoding, b"") + text.encode(encoding.removesuffix("-mark"))
    assert studies(items(tmp_path / "r.csv", content)) == [("1", "Épanchement.")]
    if encoding != "utf-8-sig":
        (row,) = bad(items(tmp_path / "r.csv", content[:-1]))
        assert row.where == "row 1"


def test_a_compressed_table_is_read_as_the_table(tmp_path: Path) -> None:
    content = b"study_id,report\n1,Clear.\n2,\xff\n"
    plain = items(tmp_path / "r.csv", content)
    assert items(tmp_path / "r.csv.gz", gzip.compress(content)) == plain
    assert len(plain) == 2


def test_rows_that_are_not_utf8_are_rejected_and_control_characters_survive(tmp_path: Path) -> None:
    content = b"study_id,report,x\n1,Clear.,\xff\n2,\xc9panchement.,\n3,Clear \xc3\xa0 droite.,\n"
    found = items(tmp_path / "r.csv", content)
    assert studies(found) == [("1", "Clear."), ("3", "Clear à droite.")]
    assert bad(found) == [LeftOut("row 2", "report: not UTF-8 text; save it as UTF-8")]
    found = items(tmp_path / "r.csv", b"study_id,report\n1,Cl\x00ear\x07.\n2,\n")
    assert studies(found) == [("1", "Cl\0ear\a."), ("2", "")]


def test_rows_without_an_id_or_with_wrong_cells(tmp_path: Path) -> None:
    content = f"study_id,report\n ,{CANARY}\nnan,b\n1,{CANARY},{CANARY}\n2\n,,\n,\n3,Clear.\n"
    found = items(tmp_path / "r.csv", content)
    assert studies(found) == [("3", "Clear.")]
    assert [item.where for item in bad(found)] == ["row 1", "row 2", "row 3", "row 4"]
    assert "empty study_id" in bad(found)[0].why
    assert "3 cells where the header has 2 (line 4)" in bad(found)[2].why
    assert CANARY not in str(bad(found))


def test_one_study_has_one_report(tmp_path: Path) -> None:
    content = f"study_id,report\n7,Clear.\n8,Other.\n7,Clear.\n7,{CANARY}\n8,Other.\n"
    found = items(tmp_path / "r.csv", content)
    assert studies(found) == [("7", "Clear."), ("8", "Other.")]
    (second,) = bad(found)
    assert second.where == "row 4"
    assert "study_id of row 1, which is used" in second.why
    assert CANARY not in second.why
    content = "study_id,findings,impression\n1,a,\n1,,a\n"  # sections are told apart
    assert [type(item) for item in items(tmp_path / "r.csv", content)] == [Study, LeftOut]


def test_sentences_of_a_table_count_within_their_study_and_section(tmp_path: Path) -> None:
    content = (
        "study_id,section,sentence,position\n1,findings,a,\n1,findings,b,\n1,,c,\n,,d,7\n"
        "2,findings,,\n2,findings,nan,\n2,findings,e,2.0\n2,findings,f,third\n"
    )
    path = tmp_path / "s.csv"
    found = items(path, content)
    assert open_source(path).holds == "sentences"
    assert found[:-1] == [
        Sentence("1", "findings", 0, "a"), Sentence("1", "findings", 1, "b"),
        Sentence("1", "sentence", 0, "c"), Sentence("4", "sentence", 7, "d"),
        Sentence("2", "findings", 2, "e"),
    ]  # fmt: skip
    assert found[-1] == LeftOut("row 8", "position is not a whole number; fix or empty it")
    found = items(path, "study_id,sentence\nA,a\nB,a\nA,a\nA,a\nB,a\n,a\n")
    places = [("A", 0), ("B", 0), ("A", 1), ("A", 2), ("B", 1), ("6", 0)]
    assert found == [Sentence(study, "sentence", place, "a") for study, place in places]
    found = items(path, "sentence\na\na\n")
    assert found == [Sentence(study, "sentence", 0, "a") for study in "12"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_what_divides_the_header(tmp_path: Path, separator: str) -> None:
    rows = [["study_id", "report"], ["1", "Clear, no; effusion | or\tair."], ["2"], ["3", "Wide."]]
    with (tmp_path / "r.csv").open("w", newline="") as handle:
        csv.writer(handle, delimiter=separator, quoting=csv.QUOTE_ALL).writerows(rows)
    found = items(tmp_path / "r.csv", (tmp_path / "r.csv").read_bytes())
    assert studies(found) == [("1", "Clear, no; effusion | or\tair."), ("3", "Wide.")]
    names = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
    (row,) = bad(found)
    assert f"quote cells that hold a {names[separator]} or" in row.why


def test_windows_1252_is_told_by_its_accents(tmp_path: Path) -> None:
    text = "study_id;report\r\n1;Kein Erguß, \u201eHerz\u201c nicht vergrößert.\r\n"
    path = tmp_path / "r.csv"
    assert studies(items(path, text.encode("cp1252"))) == studies(items(path, text))
    assert not TableRows(path).legacy
    packed = tmp_path / "r.csv.gz"
    assert items(packed, gzip.compress(text.encode("cp1252"))) == items(path, text)
    assert TableRows(packed).legacy == "Windows-1252"
    # Neither a table that is UTF-8 in part, nor one with a damaged byte, nor control characters.
    for more in ("2;é\r\n".encode(), b"2;\x8d\r\n", b"2;\0\r\n"):
        assert bad(items(path, text.encode("cp1252") + more))
    assert bad(items(path, b"study_id,report\n1,Cle\xe1r.\n"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"study_id,report\n", "the table has no rows"),
        (
            b"study_id,note\n1,x\n",
            r"no column is known to hold report text .*found: study_id, note",
        ),
        (b"report\nx\n", "no column is known to name an image or a study"),
        (
            f"1,{CANARY} is here.\n2,x\n".encode(),
            "2 columns found, not all of them names; is the header",
        ),
        (b'study_id,"report\n1,x\n', "header is not readable"),
        (
            b"study_id,report\xff\n1,x\n",
            "header is not UTF-8 text; save the table as .xlsx, or as CSV UTF-8",
        ),
        ("study_id,report\n1,x\n".encode("utf-16-le"), "UTF-16 text without a byte order mark"),
        (b"\x1f\x8b\x08\x00\x00", "compressed with gzip"),
        (b"PK\x03\x04....", "an Excel workbook or a zip archive"),
    ],
)
def test_tables_that_are_refused_at_once(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says) as error:
        open_source(path)
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    assert CANARY not in message


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('",\n\r\0; '))


@settings(max_examples=150, deadline=None)
@given(st.lists(ANY_TEXT, min_size=1, max_size=8))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["study_id", "report"])
        writer.writerows((f"s{i}", text) for i, text in enumerate(texts))
    expected = [(f"s{i}", t if t not in ("nan", "NaN") else "") for i, t in enumerate(texts)]
    assert [(s.study_id, s.report) for s in open_source(path) if isinstance(s, Study)] == expected


def test_twenty_thousand_rows_need_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    with path.open("w") as handle:
        handle.write("study_id,report\n")
        handle.writelines(f"{i},{i} {'x' * 800}\n" for i in range(20_000))
    source = open_source(path)
    tracemalloc.start()
    count = sum(isinstance(item, Study) for item in source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 6e6 < path.stat().st_size


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (f'2,"Open {CANARY}\n3,b\n', 3),
        (f'2,"Open {CANARY}\n\nthird "x"\n3,"b"\n', 3),
        ('2,"b "c"\n3,d\n', 3),
        ('"' + "x" * ROW_LIMIT + '"', 3),
        ("x" * (3 * ROW_LIMIT), 3),
    ],
)
def test_a_broken_quote_or_an_endless_row_ends_the_reading_with_its_line(
    tmp_path: Path, broken: str, line: int
) -> None:
    with pytest.raises(
        DataError, match=rf"r\.csv: the row that begins in line {line}: a quote"
    ) as e:
        items(tmp_path / "r.csv", f"study_id,report\n1,a\n{broken}")
    assert CANARY not in str(e.value)
