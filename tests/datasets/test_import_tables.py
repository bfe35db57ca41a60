"""Tables as people have them: their headers, separators and cells, and labels beside them."""

import codecs
import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.datasets.importing.folder import LEADS_OUT
from cxrtext.datasets.importing.loose import match_ids
from cxrtext.errors import ConfigError, DataError
from cxrtext.records.rows import TableRows
from tests.datasets.imported import Imported, import_beside
from tests.datasets.written import load_table, save_radiograph

GERMAN = "Bild-Datei;Befundtext;Patient;Alter;Geschlecht"


def films(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "films"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x89PNG" + name.encode())
    return folder


def written(path: Path, *lines: str, encoding: str = "utf-8", mark: bytes = b"") -> Path:
    path.write_bytes(mark + "".join(f"{line}\r\n" for line in lines).encode(encoding))
    return path


def imported(folder: Path, *lines: str, **options: Any) -> Imported:
    return import_beside(folder, reports=written(folder.parent / "t.csv", *lines), **options)


def reports(folder: Path) -> dict[str, str]:
    return {r["study_id"]: r["report"] for r in load_table(folder.parent / "out/reports.csv")}


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (GERMAN, "image patient_id report age sex"),
        ("Untersuchungs-Nr.;Dateiname;BEFUND", "image study_id report"),
        ("nombre_archivo;Informe;Paciente;Edad;Sexo", "image report patient_id age sex"),
        ("Étude;Compte-rendu;Âge", "study_id report age"),
        ("exame;Laudo;Idade;Conclusão", "study_id findings age impression"),
        ("Onderzoek;Verslag;Leeftijd;Geslacht", "study_id report age sex"),
        ("Auftragsnummer;Befund;Beurteilung", "study_id findings impression"),
        ("File Name;Report;Report 2;Text", "image report"),
        # A table that has its own names is not guessed at.
        ("study_id;report;Text;Path;filename", "study_id report"),
    ],
)
def test_columns_are_known_in_seven_languages(tmp_path: Path, header: str, columns: str) -> None:
    path = written(tmp_path / "t.csv", header)
    if "Report 2" in header:
        with pytest.raises(DataError, match="report may be Report or Report 2 or Text; say which"):
            TableRows.known(path)
        path = written(path, header.replace("Report;", "report;"))
    assert set(TableRows.known(path).names) == set(columns.split())


def test_what_is_missing_is_one_line_with_the_nearest_header(tmp_path: Path) -> None:
    def refused(header: str, **given: str) -> str:
        with pytest.raises(DataError) as caught:
            TableRows.known(written(tmp_path / "t.csv", header), given)
        return str(caught.value).removeprefix(f"{tmp_path}/t.csv: ")

    found = "(columns found: Bild-Dtaei, Text)"
    assert refused("Bild-Dtaei;Text") == (
        f"no column is known to name an image or a study {found}; --columns image=Bild-Dtaei; for "
        "a command without --columns, import the table first"
    )
    assert "; --columns report=Befund_Txt;" in refused("Bild;Befund_Txt")
    assert "; name it: --columns report=COLUMN;" in refused("Bild;Was")
    assert "--columns image=Bild;" in refused("Bild;Text", image="Bidl")
    assert "Hans" not in refused("s1.png;Hans hat nichts.;3")  # a table without a header
    with pytest.raises(ConfigError, match="--columns bild=Bild: the name is one of image, study"):
        TableRows.known(tmp_path / "t.csv", {"bild": "Bild"})
    with pytest.raises(ConfigError, match="Bild=image: .*; or is it image=Bild[?]$"):
        TableRows.known(tmp_path / "t.csv", {"Bild": "image"})
    with pytest.raises(
        DataError, match="t.ods: this workbook is not read; save the table as .xlsx"
    ):
        imported_book = ImportOptions(reports=tmp_path / "t.ods")
        import_folder(films(tmp_path, "a.png"), tmp_path / "out", imported_book)


def test_the_table_of_a_hospital(tmp_path: Path) -> None:
    """Semicolons, Windows-1252, patients, and cells of every kind."""
    names = "a/eins.png", "a/zwei.PNG", "b/drei.jpg", "b/vier.png", "b/fünf.jpeg", "c/unnamed.png"
    folder = films(tmp_path, *names, "a/doppelt.png", "b/doppelt.png")
    (folder / "a/sechs.png").symlink_to(folder / "c/unnamed.png")
    (tmp_path / "out.png").write_bytes(b"\x89PNG")
    (folder / "b/weg.png").symlink_to(tmp_path / "out.png")
    lines = [
        GERMAN, r"a\eins.png;Größe normal, kein Erguß.;P1;40;m", "zwei;Zwei.;P1;40;m",
        "DREI.JPG;Drei.;P2;;w", "b/vier;Vier.;P3;;", "fünf.jpeg;Fünf.;P4;;", "sechs;Sechs.;P5;;",
        "doppelt;Kein.;P6;;", "weg;Kein.;P6;;", "fort.png;Kein.;P6;;", ";Kein.;P6;;",
        "../out.png;Kein.;P6;;",
    ]  # fmt: skip
    table = written(tmp_path / "t.csv", *lines, encoding="cp1252")
    summary, rows, left = import_beside(folder, reports=table, keep=("Alter", "sex"))
    assert (summary.layout, summary.images, summary.patients) == ("pictures", 6, 5)
    assert summary.columns["report"] == "Befundtext"
    assert summary.notes == {"t.csv: read as Windows-1252": 1}
    assert summary.not_there == ("fort.png",)
    assert rows[0] | {"split": ""} == {
        "image": "images/a/eins.png", "study_id": "a/eins", "patient_id": "P1", "split": "",
        "view": "", "age": "40", "sex": "M",
    }  # fmt: skip
    assert [row["image"] for row in rows][1:] == [
        f"images/{name}" for name in ("a/zwei.PNG", *names[2:5], "a/sechs.png")
    ]
    assert reports(folder)["a/eins"] == "Größe normal, kein Erguß."
    assert "2 files are called so" in left["t.csv row 7"]
    assert left["t.csv row 8"] == f"{LEADS_OUT}: put the file there"
    assert summary.set_aside[LEADS_OUT] == 1
    assert left["t.csv row 9"] == "listed, but the image file is not there: fort.png"
    assert "image is empty" in left["t.csv row 10"]
    assert "image lies outside the folder" in left["t.csv row 11"]
    unnamed = {name for name, why in left.items() if why == "no row of the table names it"}
    assert unnamed == {"c/unnamed.png", "a/doppelt.png", "b/doppelt.png"}


def test_excels_mark_and_no_image_that_is_there(tmp_path: Path) -> None:
    folder = films(tmp_path, "a.png")
    table = written(tmp_path / "t.csv", "Bild\tBefund", "a\tKlar.", mark=codecs.BOM_UTF8)
    assert import_beside(folder, reports=table)[0].reports == 1
    table = written(tmp_path / "t.csv", "Bild\tBefund", "b.png\tKlar.")
    with pytest.raises(DataError, match=re.escape(f"looked in {folder} and below for b.png …")):
        import_folder(folder, tmp_path / "none", ImportOptions(reports=table))


@pytest.mark.parametrize("ways", [("s1.png", "s2.jpg", "x/s3.png"), ("s1/a.png", "s2/a.png")])
def test_studies_are_named_by_files_or_by_folders(tmp_path: Path, ways: tuple[str, ...]) -> None:
    folder = films(tmp_path, *ways, "s1/b.png", "more/s9.png")
    summary, rows, left = imported(
        folder, "Studie|Befund", "s1|Eins.", "s2|Zwei.", "s4|Vier.", "s1|Eins."
    )
    by_folder = "s1/a.png" in ways
    named = ("s1/a.png", "s1/b.png", "s2/a.png") if by_folder else ("s1.png", "s2.jpg")
    assert [row["image"] for row in rows] == [f"images/{name}" for name in named]
    assert reports(folder) == {"s1": "Eins.", "s2": "Zwei."}
    assert summary.reports_without_study == 1
    assert left["t.csv row 3"] == "listed, but the image file is not there: s4"
    assert left["more/s9.png"] == "no row of the table names it"


def test_dicom_files_are_joined_by_study_or_by_their_name(tmp_path: Path) -> None:
    for number in (1, 2):
        uid = f"1.2.3.{number}"
        save_radiograph(
            tmp_path / f"films/p{number}/{uid}.dcm", uid, np.zeros((8, 8), np.uint8),
            StudyInstanceUID=f"1.9.{number}", PatientID=f"P{number}", BodyPartExamined="CHEST",
        )  # fmt: skip
    folder = tmp_path / "films"
    imported(folder, "Dateiname;Befund", "1.2.3.1;Eins.", "1.2.3.2.dcm;Zwei.", "9;Neun.")
    assert reports(folder) == {"1.9.1": "Eins.", "1.9.2": "Zwei."}
    # A guess at the patient, which may be a name, is not held against the header's; a word is.
    lines = "Studie;Befund;Patient", "1.9.1;Eins.;Meier", "1.9.2;Zwei.;P2"
    assert imported(folder, *lines)[0].reports == 2
    columns = {"patient_id": "Patient"}
    assert imported(folder, *lines, columns=columns)[0].reports == 1


def test_labels_of_studies_and_of_images(tmp_path: Path) -> None:
    folder = films(tmp_path, "a.png", "b.png", "c.png")
    table = "Bild;Befund;Edema", "a;Klar.;1", "b;Klar.;1", "c;Klar.;1"
    labels = written(tmp_path / "l.csv", "Bild;Alter;Pneumothorax;Erguss", "a.png;50;ja;-1",
                     "b;50;NO;", "c;50;vielleicht;1", "d;50;1;1")  # fmt: skip
    summary, _, left = imported(folder, *table, labels=labels)
    assert summary.labelled == 2
    assert load_table(tmp_path / "out/labels.csv") == [
        {"study_id": "a", "Pneumothorax": "1", "Erguss": "-1"},
        {"study_id": "b", "Pneumothorax": "0", "Erguss": ""},
    ]
    assert left == {"l.csv row 3": "Pneumothorax: a label is 1, 0, -1 or blank; fix the cell"}
    # Of studies; and the set's own, where no others are named.
    written(labels, "study_id,Edema", "b,positiv")
    assert imported(folder, *table, labels=labels)[0].findings == {"Edema": 1}
    assert imported(folder, *table)[0].findings == {"Edema": 3}
    written(labels, "study_id,Edema", "z,1")
    with pytest.raises(DataError, match="no label matched: none of its 1 names a study or an"):
        imported(folder, *table, labels=labels)


def test_a_table_of_images_in_the_place_of_the_folder(tmp_path: Path) -> None:
    table = written(films(tmp_path, "x/a.png") / "t.csv", "Bild;Patient;Befund", "a;P1;Klar.")
    summary = import_folder(table, tmp_path / "out")
    assert (summary.layout, summary.images, summary.reports) == ("generic", 1, 1)
    with pytest.raises(ConfigError, match="--columns needs a table; give one with --reports"):
        import_folder(table.parent, tmp_path / "out", ImportOptions(columns={"image": "Bild"}))
    said = f"no known set; files: 1 .csv, 1 .png; name the table .*: --reports {table}$"
    with pytest.raises(DataError, match=said):
        import_folder(table.parent, tmp_path / "none")


@pytest.mark.parametrize("name", ["reports.csv", "films of 2026.csv"])
def test_a_table_with_the_films_that_it_names_and_no_studies(tmp_path: Path, name: str) -> None:
    folder = films(tmp_path, "x/a.png")
    written(folder / name, "image,patient_id,report", "x/a.png,P1,Clear.")
    summary = import_folder(folder, tmp_path / "out")
    assert (summary.layout, summary.images, summary.reports) == ("generic", 1, 1)
    assert reports(folder) == {"x/a": "Clear."}


DAMAGES: dict[str, Callable[[str], str]] = {
    "lost leading zeros": lambda text: text.lstrip("0"),
    "are decimal numbers": lambda text: f"{text.lstrip('0')}.0",
    "begin with an apostrophe": lambda text: f"'{text}",
    "are formulas": lambda text: f'="{text}"',
}


def radiographs(tmp_path: Path) -> Path:
    """Six films of three patients, with ids that begin with zeros."""
    for number in range(6):
        save_radiograph(
            tmp_path / f"films/{number}.dcm", f"1.2.3.{number}", np.zeros((8, 8), np.uint8),
            StudyInstanceUID=f"1.2.826.0.1.3680043.10.9.{number}",
            AccessionNumber=f"00{40 + number}",
            PatientID=f"00{10 + number // 2}", BodyPartExamined="CHEST",
        )  # fmt: skip
    return tmp_path / "films"


@pytest.mark.parametrize("damage", DAMAGES)
def test_ids_that_a_spreadsheet_changed_are_told_and_joined_if_asked(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, change = radiographs(tmp_path), DAMAGES[damage]
    rows = [(f"00{40 + n}", f"00{10 + n // 2}") for n in range(6)]
    table = tmp_path / "t.csv"
    for columns in ((0,), (0, 1), (1,)):  # of accessions, patients
        with table.open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(["accession", "patient_id", "report"])
            for row in rows:
                ids = [change(one) if place in columns else one for place, one in enumerate(row)]
                writer.writerow([*ids, "Clear."])
        what, example = ("study", rows[0][0]) if 0 in columns else ("patient", rows[0][1])
        said = f"{6 if 0 in columns else 3} of {6 if 0 in columns else 3} {what} ids {damage}: "
        said += f"'{change(example)}' in t.csv, '{example}' in the films"
        with monkeypatch.context() as patched:
            patched.setattr("cxrtext.datasets.importing.importer.look_at", None)  # no picture
            with pytest.raises(DataError, match=re.escape(said) + ".* give --ids loose"):
                import_beside(folder, reports=table)
        summary, found, _ = import_beside(folder, reports=table, ids="loose")
        assert (summary.reports, summary.patients, len(found)) == (6, 3, 6)
        assert f"{said}; joined" in summary.notes


def test_ids_that_were_cut_off_or_lost_their_digits(tmp_path: Path) -> None:
    folder = radiographs(tmp_path)
    cut = [f"1.2.826.0.1.3680043.10.9.{n}"[:-2] for n in range(6)]
    with pytest.raises(DataError, match="two of one study id would become one: '1.2.826.0"):
        imported(folder, "Studie;Befund", *(f"{one};Clear." for one in cut), ids="loose")
    with pytest.raises(DataError, match="a study id is '4.0E\\+07': a spreadsheet dropped its dig"):
        imported(folder, "Studie;Befund", "4.0E+07;Clear.", ids="loose")
    # Two patients stay two.
    lines: tuple[str, ...] = "Studie;Befund;patient_id", "0040;Eins.;10", "0042;Zwei.;0010"
    with pytest.raises(DataError, match="two of one patient id would become one: '0010' and '10'"):
        imported(folder, *lines, ids="loose")
    # Where most are right, the others are told.
    lines = "Studie;Befund", "0040;Eins.", "0041;Zwei.", "42;Drei."
    summary, *_ = imported(folder, *lines)
    assert summary.reports == 2
    assert any(note.endswith("--ids loose joins them") for note in summary.notes)


def test_names_of_pictures_that_a_spreadsheet_changed(tmp_path: Path) -> None:
    folder = films(tmp_path, "s0001.png", "s0002.png", "a/x.png", "b/y.png")
    lines: tuple[str, ...] = "Bild;Befund", "1.png;Eins.", "2.png;Zwei."
    with pytest.raises(
        DataError, match="2 of 2 image ids are written differently: '1' in t.csv, 's"
    ):
        imported(folder, *lines)
    assert imported(folder, *lines, ids="loose")[0].reports == 2
    assert reports(folder) == {"s0001": "Eins.", "s0002": "Zwei."}
    # Paths of another machine; a name alone does not do where a folder is given, too.
    lines = "Bild;Befund", r"D:\PACS\s0001.png;Eins.", "/pacs/a/x.png;Zwei.", r"\\nas\c\y.png;Drei."
    _, rows, left = imported(folder, *lines)
    assert [row["image"] for row in rows] == ["images/s0001.png", "images/a/x.png"]
    assert "the image file is not there" in left["t.csv row 3"]
    scientific = "Bild;Studie;Befund", "s0001.png;2.02301E+13;Eins."
    with pytest.raises(DataError, match="row 1: study_id is '2.02301E\\+13'"):
        imported(folder, *scientific)


def test_cells_by_meaning_and_days_since_the_first_study(tmp_path: Path) -> None:
    folder = films(tmp_path, "a.png", "b.png", "c.png")
    keep = ("age", "sex", "date", "days_since_first")
    lines = (
        "Bild;Patient;Alter;Geschlecht;Datum;Befund", "a;P;56,0;männlich;3/1/2024;#NAME?",
        "b;P;56 J.;1;12/31/2023;Zwei.", "c;Q;alt;W;3/2/2024;Drei.",
    )  # fmt: skip
    summary, rows, left = imported(folder, *lines, keep=keep)
    assert left["reports t.csv"].startswith(
        "report: 1 cells hold an error of the spreadsheet, such as #NA"
    )
    assert [[row[name] for name in keep] for row in rows] == [
        ["56", "M", "2024", "61"], ["56", "", "2023", "0"], ["", "F", "2024", "0"],
    ]  # fmt: skip
    assert "left blank: age (Alter): 1 of 3 cells cannot be read (first: row 3)" in summary.notes
    assert not any("2024-" in value for row in rows for value in row.values())
    again = import_folder(tmp_path / "out", tmp_path / "again", ImportOptions(keep=keep[3:]))
    assert again.images == 3  # of a data folder the days stay
    rows = load_table(tmp_path / "again/manifest.csv")
    assert [row["days_since_first"] for row in rows] == ["61", "0", "0"]


def test_pictures_with_a_text_beside_each(tmp_path: Path) -> None:
    folder = films(tmp_path, "s000001.png", "s000002.png", "x/50.png", "x/none.png")
    (folder / "s000001.txt").write_bytes("Größe normal.".encode("cp1252"))
    (folder / "s000002.txt").write_text("Klar.")
    (folder / "x/50.txt").write_bytes("Kein Erguß.".encode("utf-16"))
    summary, rows, _ = import_beside(folder)
    assert (summary.layout, len(rows), summary.reports) == ("pictures", 4, 3)
    said = {"s000001": "Größe normal.", "s000002": "Klar.", "x/50": "Kein Erguß."}
    assert (reports(folder), summary.notes) == (said, {})
    texts = tmp_path / "texts"
    texts.mkdir()
    for path in folder.rglob("*.txt"):
        path.rename(texts / path.name)
    assert import_beside(folder, reports=texts)[0].reports == 3


def test_links_are_followed_if_asked(tmp_path: Path) -> None:
    store = films(tmp_path, "p/a.png", "p/b.png").rename(tmp_path / "store")
    folder = films(tmp_path, "c.png")
    (folder / "p").symlink_to(store / "p")
    (folder / "p2").symlink_to(store / "p")
    (folder / "up").symlink_to(folder)
    lines = "Bild;Befund", "a;Eins.", "b;Zwei.", "c;Drei."
    assert imported(folder, *lines)[0].images == 1
    _, rows, _ = imported(folder, *lines, follow_links=True)
    assert [row["image"] for row in rows] == [f"images/{n}.png" for n in ("p/a", "p/b", "c")]


@pytest.mark.parametrize(
    ("header", "cells", "read"),
    [
        ("sex", "M F", "M F"), ("sex", "M W D", "M F O"), ("sex", "H F", "M F"),
        ("sex", ". M", " M"), ("sex", "H M", "M F"), ("sexo", "V M", "M F"),
        ("Geslacht", "V M", "F M"),
        ("sex", "V M", " "), ("Sesso", "U D", "M F"), ("sex", "V", ""), ("Sexo", "M", ""),
        ("sex (V=male, M=female)", "V M", "M F"), ("age", "12j 3ans", "0 3"),
        ("Alter", "58J. 7M", "58 0"), ("age", "12j 40", " 40"), ("age", "12j 3ans 4Tage", " 3 0"),
    ],
)  # fmt: skip
def test_letters_mean_what_their_column_shows(
    tmp_path: Path, header: str, cells: str, read: str
) -> None:
    name = "age" if header in ("age", "Alter") else "sex"
    folder = films(tmp_path, "0.png", "1.png", "2.png")
    lines = [f"{n};Clear.;{cell}" for n, cell in enumerate(cells.split())]
    summary, rows, _ = imported(folder, f"image;report;{header}", *lines, keep=(name,))
    assert [row[name] for row in rows] == read.split(" ")
    assert any("left blank" in note for note in summary.notes) == ("" in read.split(" "))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("image,section,report|a,Findings,A.|a,Impression,B.", "FINDINGS:\nA.\nIMPRESSION:\nB."),
        ("image,Zeile,report|a,2,lungs.|a,1,Clear|a,3,Normal.", "Clear\nlungs.\nNormal."),
        ("image,version,report|a,1,Old.|a,2,New.", "New."),
        ("image,Status,Befund|a,vorläufig,Old.|a,freigegeben,New.", "New."),
        ("image,signed_at,report|a,2024-02-03,Old.|a,2024-03-02,New.", "New."),
        ("image,report_type,report|a,Addendum,More.|a,Report,One.", "One.\n\nADDENDUM:\nMore."),
        ("image,study_id,report|a,S,n/a|b,S,New.|b,S,", "New."),
    ],
)  # fmt: skip
def test_rows_of_one_report(tmp_path: Path, lines: str, said: str) -> None:
    folder = films(tmp_path, "a.png", "b.png")
    imported(folder, *lines.split("|"))
    assert [*reports(folder).values()] == [said]


def test_patients_who_are_nobody_or_written_in_two_ways(tmp_path: Path) -> None:
    ids = "NULL", "unknown", "n/a", "-", "0012", "12", "P-7", "p\N{EN DASH}7"
    folder = films(tmp_path, *(f"f{n}.png" for n in range(8)))
    lines = "image;patient_id;report", *(f"f{n};{one};Clear." for n, one in enumerate(ids))
    summary, *_ = imported(folder, *lines)
    assert (summary.patients, summary.without_patient) == (8, 4)
    assert any("two ways: '12' and '0012'; --ids" in note for note in summary.notes)
    assert imported(folder, *lines, ids="loose")[0].patients == 6


def test_names_that_files_of_two_folders_have(tmp_path: Path) -> None:
    folder = films(tmp_path, "a.png", "sub/a.png")
    imported(folder, "image;report", "a;Root.", "sub/a;Sub.")
    assert reports(folder) == {"a": "Root.", "sub/a": "Sub."}
    with pytest.raises(DataError, match="row 1: 2 files are called so; name the folder"):
        imported(folder, "image;report", "a.png;Root.")


def test_keys_that_contradict_and_ids_that_became_one(tmp_path: Path) -> None:
    folder = radiographs(tmp_path)
    with pytest.raises(DataError, match="image name two studies: 0041, 0.dcm; give"):
        imported(folder, "image;accession;report", "0.dcm;0041;Clear.")
    with pytest.raises(DataError, match="have the study id '40', and none has the films' '0040'"):
        match_ids(tmp_path, "study", ["40", "40"], ["40", "0040"], "loose", ["40"])


def test_a_hidden_sheet_is_not_read(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.create_sheet("new").append(["study_id", "report"])
    book.worksheets[0].append(["study_id", "report", "patient_id"])
    book.worksheets[0].sheet_state = "hidden"
    book.save(tmp_path / "t.xlsx")
    assert TableRows(tmp_path / "t.xlsx").sheets == ["new", "Sheet"]
