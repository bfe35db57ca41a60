"""Tables as spreadsheets write them: dialects, encodings, workbooks, and what their cells mean."""

import codecs
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from openpyxl import Workbook

from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Study, open_source, read_labels, read_manifest
from cxrtext.records.cells import (
    date_order,
    days_between,
    meanings_of,
    moment,
    read_time,
    sex,
    years,
)
from cxrtext.records.columns import parse_columns
from cxrtext.records.decoding import decode
from cxrtext.records.rows import TableRows

HEAD, ROW = "Studie;Befund", "0020;Größe normal – kein Erguß."


def reports(path: Path, columns: str = "") -> list[tuple[str, str]]:
    found = open_source(path, parse_columns(columns))
    return [(one.study_id, one.report) for one in found if isinstance(one, Study)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", f"{HEAD}\r\n{ROW}\r\n".encode("cp1252")),
        ("t.csv", f"{HEAD}\r{ROW}\r".encode("mac_roman")),
        ("t.csv", f"sep=;\r\n{HEAD}\r\n{ROW}\r\n".encode("utf-8-sig")),
        ("t.csv", f"Export RIS, 1.3.2024\r\n;\r\n\r\n{HEAD}\r\n{ROW}\r\n".encode()),
        ("t.tsv", f"{HEAD}\n{ROW}\n".replace(";", "\t").encode()),
        ("t.txt", f"{HEAD}\r\n{ROW}\r\n".replace(";", "\t").encode("utf-16")),
        ("t.csv", f"{HEAD};;x;x\n{ROW};;#NAME?;\n;;;;\n".encode()),
    ],
)
def test_every_dialect_is_the_same_table(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert reports(path) == [("0020", "Größe normal – kein Erguß.")]


def test_a_second_column_of_one_name_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("study_id,report,report\n1,new,old\n2,#NAME?,old\n")
    with pytest.raises(DataError, match=r"'report' occurs more than once; say which: .*\(2\)"):
        reports(path)
    assert reports(path, "report=report (2)") == [("1", "old"), ("2", "old")]
    assert reports(path, "report=report") == [("1", "new"), ("2", "")]


def test_text_in_an_encoding_that_is_not_known_is_not_guessed() -> None:
    assert decode("Größe".encode("cp1252")) == decode("Größe".encode("mac_roman")) == "Größe"
    assert decode("“Größe”".encode("cp1252")) == "“Größe”"
    assert decode("Größe\r\n".encode("utf-16")) == "Größe\n"
    assert decode("右侧胸腔积液，心影增大。".encode("gb18030")) is None
    assert decode(codecs.BOM_UTF8 + b"\xff") is None


def save_book(path: Path, *sheets: list[list[Any]], formats: dict[str, str] | None = None) -> Path:
    book = Workbook()
    for number, rows in enumerate(sheets):
        sheet = book.worksheets[0] if number == 0 else book.create_sheet()
        for row in rows:
            sheet.append(row)
        for cell, of in (formats or {}).items() if number else ():
            sheet[cell].number_format = of
    book.save(path)
    return path


def test_a_workbook_is_a_table(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Export", None],
        ["Studie", "Befund", "Datum"],
        [20, "Clear.", date(2024, 3, 1)],
    ]
    rows += [[None, None, None], [21.0, "=1/0", datetime(2024, 3, 2, 8, 15)], ["x", "#REF!", ""]]
    notes: list[list[Any]] = [["Notes"], ["none"]]
    path = save_book(tmp_path / "t.xlsx", notes, rows, formats={"A3": "0000"})
    assert reports(path)[0] == ("0020", "Clear.")
    table = TableRows.known(path)
    found = [row[1] for row in table if not isinstance(row, LeftOut)]
    assert [row["date"] for row in found] == ["2024-03-01", "2024-03-02 08:15:00", ""]
    assert (found[2]["report"], table.count) == ("", 4)
    with ZipFile(path) as old:  # says that it is a million rows of 16,384 cells
        parts = {name: old.read(name) for name in old.namelist()}
    with ZipFile(path, "w") as new:
        for name, data in parts.items():
            new.writestr(
                name, re.sub(rb'dimension ref="[^"]*"', b'dimension ref="A1:XFD1048576"', data)
            )
    assert [row[1] for row in TableRows.known(path)] == found  # type: ignore[index]
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(DataError, match=r"t\.xlsx: not a readable workbook: cut off or damaged"):
        reports(path)


def test_a_workbook_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_book(tmp_path / "t.xlsx", [["study_id", "report"], *[[1, "a" * 30_000]] * 200])
    monkeypatch.setattr("cxrtext.records.parquet_tables.MEMORY_BYTES", 1000)
    monkeypatch.setattr("cxrtext.records.parquet_tables.TIMES", 1)
    with pytest.raises(DataError, match="unpacks to far more than its size"):
        reports(path)


def test_manifests_and_labels_of_hospitals(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Bild;Patient;Alter;Geschlecht (1=m, 2=w);CRP (mg/l)\na.png;P1;56,0;2;3\n")
    (record,) = read_manifest(path)
    assert (record.study_id, record.patient_id) == ("a", "P1")
    assert record.metadata == {"age": "56", "sex": "F", "CRP (mg/l)": "3"}
    path.write_text("Bild;Alter\na.png;alt\n")
    with pytest.raises(DataError, match=r"age \(Alter\): no cell can be read \(first: row 1\)"):
        read_manifest(path)
    path.write_text("Studie;Edema\n7;1\n")
    assert read_labels(path, ("Edema",)) == {"7": {"Edema": 1}}
    path.write_text("Bid;CRP (mg/l)\na.png;3\n")
    with pytest.raises(DataError, match=r"columns found: Bid, CRP \(mg/l\)\); --columns image=Bid"):
        read_manifest(path)


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("56", "56"), ("56,0", "56"), ("056Y", "56"), ("56 J.", "56"), ("56 Jahre", "56"),
        ("7 Monate", "0"), ("030M", "2"), ("400D", "1"), ("414", ""), ("alt", ""), ("5-6", ""),
    ],
)  # fmt: skip
def test_ages(text: str, age: str) -> None:
    assert years(text) == age


def test_sexes_and_numbers_only_where_a_header_says() -> None:
    said = {"M": "m M männlich MAENNLICH Mann Hombre", "F": "w female Frau mujer Féminin", "O": "d"}
    for letter, words in said.items():
        assert {sex(word) for word in words.split()} == {letter}
    assert {sex(text) for text in ("1", "2", "", "unknown", "Meier")} == {""}
    assert [sex(text, {"1": "m", "2": "w"}) for text in ("1", "2.0", "3")] == ["M", "F", ""]


def test_dates_are_read_in_the_order_that_their_column_shows(tmp_path: Path) -> None:
    days, months = ["1/3/2024", "13/04/2024 08:15"], ["1/3/24", "12/31/98"]
    assert (date_order(days), date_order(months)) == ("day", "month")
    assert date_order([*days, *months]) == date_order(["1/3/2024"]) == ""
    assert read_time("1/3/2024", "day") == "20240301"
    assert read_time("12/31/98", "month") == "19981231"
    assert moment("13.04.2024 08:15") == "2024-04-13T08:15:00"
    assert moment("20190302", "101500.25") == "2019-03-02T10:15:00"
    assert (moment("1/3/2024"), moment("31.31.2024")) == ("", "")
    path = tmp_path / "t.csv"
    path.write_text("image,date,age\na,1/3/2024,5\nb,2/3/2024,x\nc,,\n")
    found = meanings_of(TableRows(path), ("date", "age"))
    assert found["date"].fault("date", "date").startswith("date: no cell can be read (first: row 1")
    assert found["age"].fault("age", "age") == "age: 1 of 2 cells cannot be read (first: row 2)"


def test_days_between_studies() -> None:
    assert days_between("2024-03-01", "2024-03-31T23:00:00") == "30"
    assert days_between("2024-03-01T06:00:00", "2024-03-01T12:00:00") == "0.25"
    assert days_between("2024-03-01T06:00:00", "2024-03-01T06:00:00") == "0"
