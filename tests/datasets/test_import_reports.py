"""Versions of reports: statuses, addenda, HL7 v2 and structured reports."""

import gzip
from pathlib import Path
from time import tzset
from typing import Any

import numpy as np
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from cxrtext.datasets.importing import ImportSummary
from cxrtext.datasets.importing.joining import OTHER_PATIENT
from cxrtext.datasets.importing.reports.hl7 import (
    CHARACTER_SETS,
    MessageError,
    messages,
    read_message,
)
from cxrtext.datasets.importing.reports.sr import read_sr
from cxrtext.datasets.importing.versions import Chosen, ReportVersion, Status, choose, whole_text
from cxrtext.records.cells import read_time
from tests.datasets.imported import import_beside
from tests.datasets.written import dicom_file, load_table, save_radiograph


def save_image(path: Path, number: int, **elements: Any) -> None:
    """A small chest radiograph of study 1.2.9.N, accession 00N and patient P00N."""
    values = {
        "StudyInstanceUID": f"1.2.9.{number}", "AccessionNumber": f"00{number}",
        "PatientID": f"P00{number}",
    }  # fmt: skip
    pixels = np.array([[number, 2], [3, 4]], np.uint8)
    save_radiograph(path, f"1.2.3.{number}", pixels, **{**values, **elements})


def _coded(value: str, meaning: str) -> Sequence:
    code = Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, "LN", meaning
    return Sequence([code])


def _item(kind: str, meaning: str, text: str = "", *children: Dataset) -> Dataset:
    item = Dataset()
    item.ValueType, item.ConceptNameCodeSequence = kind, _coded("1", meaning)
    if text:
        item.TextValue = text
    if children:
        item.ContentSequence = Sequence(children)
    return item


def save_sr(path: Path, number: int, findings: str, *, title: str = "18748-4", **more: Any) -> None:
    file = dicom_file(path, "1.2.840.10008.5.1.4.1.1.88.11", f"1.2.4.{number}")
    file.SpecificCharacterSet = "ISO_IR 192"
    file.Modality, file.StudyInstanceUID = "SR", f"1.2.9.{number}"
    file.ContentDate, file.ContentTime = "20240301", "120000"
    file.CompletionFlag, file.VerificationFlag = "COMPLETE", "VERIFIED"
    file.ValueType, file.ConceptNameCodeSequence = "CONTAINER", _coded(title, "Report")
    section = _item("CONTAINER", "Findings", "", _item("TEXT", "Finding", findings))
    file.ContentSequence = Sequence([section, _item("TEXT", "Impression", "Normal.")])
    for keyword, value in more.items():
        setattr(file, keyword, value)
    file.save_as(path, enforce_file_format=True)


def hl7(
    text: str = "Clear.", *, accession: str = "001^RIS", status: str = "F", time: str = "20240301",
    patient: str = "P001", charset: str = "UNICODE UTF-8", code: str = "18748-4^Report^LN",
    study: str = "",
) -> bytes:  # fmt: skip
    """An ORU message; ``text`` may hold several OBX lines."""
    lines = [
        f"MSH|^~\\&|RIS|H|PACS|H|{time}||ORU^R01|1|P|2.5.1||||||{charset}",
        f"PID|1||{patient}||Doe^John",
        f"OBR|1||{accession}|36643-5^Chest^LN|||{time}|||||||||||||||{time}|||{status}",
    ]
    if study:
        lines.append(f"OBX|1|ST|113014^Study Instance UID^DCM||{study}||||||F")
    lines += [f"OBX|{n}|TX|{code}||{line}||||||F" for n, line in enumerate(text.split("\n"), 2)]
    return "\r".join(lines).encode(CHARACTER_SETS.get(charset, "utf-8"))


def load(tree: Path, **options: Any) -> tuple[ImportSummary, dict[str, str], dict[str, str]]:
    summary, _, why = import_beside(tree, **options)
    reports = tree.parent / "out/reports.csv"
    texts = {r["study_id"]: r["report"] for r in load_table(reports)} if reports.exists() else {}
    counts = dict(summary.report_versions or {})
    assert counts.pop("versions", 0) == sum(counts.values())
    return summary, texts, why


def read_one(message: bytes) -> ReportVersion:
    (found,) = read_message(message, "m")
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        save_image(tmp_path / f"tree/{number}", number)
    return tmp_path / "tree"


def version(text: str, status: Status = Status.FINAL, time: str = "", **more: Any) -> ReportVersion:
    return ReportVersion("row 1", "s", status=status, time=time, report=text, **more)


def test_the_highest_status_and_of_these_the_latest_counts() -> None:
    p, f, c = Status.PRELIMINARY, Status.FINAL, Status.CORRECTED
    said = (("p", p, "2024030199"), ("f", f, "20240301"), ("f2", f, "20240302"))
    versions = [version(*one) for one in said]
    chosen = choose([*versions, version("f", f, "20240301")])
    assert chosen.report == versions[2]
    assert [why for _, why in chosen.replaced] == [
        "preliminary, replaced by a final one", "replaced by a later one"
    ]  # fmt: skip
    assert chosen.again == 1
    corrected = version("c", c, "20240101")
    for order in ([corrected, *versions], [*versions, corrected]):
        assert choose(order).report == corrected
    withdrawn = version("", Status.WITHDRAWN, "20240401")
    assert choose([*versions, corrected, withdrawn]).report is None
    assert choose([withdrawn, version("new", f, "20240402")]).report is not None
    undecided = choose([version("a"), version("b")])
    assert undecided.report == version("a")
    assert "nothing says which" in undecided.replaced[0][1]


def test_a_hundred_and_one_addenda_are_appended_in_order() -> None:
    addenda = [version(f"Addendum {n:03}.", time=f"2024{n:04}", addendum=True) for n in range(101)]
    chosen = choose([*reversed(addenda), version("Clear.", time="2024")])
    text, _ = whole_text(chosen)
    assert text.startswith("Clear.\n\nADDENDUM:\nAddendum 000.")
    assert text.endswith("ADDENDUM:\nAddendum 100.")
    assert text.count("ADDENDUM:") == 101
    # One that the corrected report holds already is not said twice.
    whole = version("Clear. Addendum 007.", Status.CORRECTED)
    chosen = choose([*addenda, whole])
    assert (len(chosen.addenda), len(chosen.replaced)) == (100, 1)
    alone = choose(addenda[:2])
    assert whole_text(alone)[0] == "Addendum 000.\n\nADDENDUM:\nAddendum 001."
    sections = ReportVersion("row 1", "s", sections={"findings": "Clear.", "impression": ""})
    assert whole_text(choose([sections, addenda[0]]))[1] == {
        "findings": "Clear.\n\nADDENDUM:\nAddendum 000.", "impression": ""
    }  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "hour"), [("UTC", "11"), ("Europe/Vienna", "12"), ("America/New_York", "06")]
)
def test_times_with_zones_compare_as_moments(
    monkeypatch: pytest.MonkeyPatch, zone: str, hour: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    tzset()
    try:
        same = ("2024-03-01T12:00:05+01:00", "2024-03-01T11:00:05Z", "20240301060005.25-0500")
        assert {read_time(text) for text in same} == {f"20240301{hour}0005"}
        assert read_time("202403010930-0500") > read_time("202403011510+0100")
    finally:
        monkeypatch.undo()
        tzset()


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("2024/3/1 9:5:7", "20240301090507"), ("1.3.2024, 14:30", "202403011430"),
        ("2024-03-01 09:05 PM", "202403012105"), ("2024-03-01 12:05 a.m.", "202403010005"),
        ("20240301T090507.5", "20240301090507"), ("2024-03-01T09:05:00.123Z", None),
        ("2024-03", "202403"), ("2024-99-01T12:00:05+01:00", "20249901120005"),
        # Of two readings neither is taken, and what is no time is none.
        ("3/1/2024 12:00", ""), ("Mar 1, 2024", ""), ("12", ""), ("", ""), ("2024-03-01 at 9", ""),
    ],
)  # fmt: skip
def test_a_time_is_read_in_the_ways_that_tables_write_it(text: str, digits: str | None) -> None:
    assert read_time(text) == (read_time("20240301090500+0000") if digits is None else digits)


def test_a_withdrawal_takes_what_was_there_and_not_what_comes_later() -> None:
    withdrawn = version("", Status.WITHDRAWN, "20240302")
    late = version("More was seen.", Status.FINAL, "20240303", addendum=True)
    early = version("Also this.", Status.FINAL, "20240301", addendum=True)
    chosen = choose([withdrawn, late, early])
    assert (chosen.report, *chosen.addenda) == (late,)
    assert (early, "withdrawn") in chosen.replaced
    final = version("Of the wrong patient.", Status.FINAL, "20240301")
    preliminary = version("Of the right one.", Status.PRELIMINARY, "20240303")
    assert choose([final, withdrawn, preliminary]).report == preliminary
    added = version("", Status.WITHDRAWN, "20240302", addendum=True)
    assert choose([final, early, late, added]) == Chosen(
        final, [late], [(early, "withdrawn"), (added, "withdraws")]
    )
    assert choose([final, added]).report is None  # an addendum that never came, or a report


def mdm(
    event: str, text: str = "", *, completion: str = "", availability: str = "", parent: str = ""
) -> bytes:
    lines = [
        f"MSH|^~\\&|RIS|H|PACS|H|20240302||MDM^{event}|1|P|2.5||||||UNICODE UTF-8",
        "EVN||20240302",
        "PID|1||P001||Doe^John",
        f"TXA|1|RP|TX|||||||||7^RIS|{parent}||001^RIS||{completion}||{availability}",
    ]
    return "\r".join(lines + [f"OBX|1|TX|18748-4||{text}||||||F"] * bool(text)).encode()


def observed(status: str, of_order: str = "F") -> bytes:
    return hl7("Clear.\nHeart.", status=of_order).replace(b"||||||F", f"||||||{status}".encode())


def one_missing(status: str) -> bytes:
    return observed("X", "").replace(b"||||||X", f"||||||{status}".encode(), 1)


@pytest.mark.parametrize(
    ("message", "status", "addendum"),
    [
        (observed("W", "C"), Status.WITHDRAWN, False),
        (observed("D"), Status.WITHDRAWN, False),
        (observed("C"), Status.CORRECTED, False),
        (observed("C", "P"), Status.PRELIMINARY, False),
        (observed("F", ""), Status.FINAL, False),
        (one_missing(""), Status.UNKNOWN, False),
        (one_missing("F"), Status.FINAL, False),
        (one_missing("W"), Status.WITHDRAWN, False),
        (mdm("T11", parent="6^RIS"), Status.WITHDRAWN, True),
        (mdm("T10", "Corrected.", parent="6^RIS"), Status.CORRECTED, False),
    ],
)
def test_the_status_of_a_message_by_the_standards_tables(
    message: bytes, status: Status, addendum: bool
) -> None:
    found = read_one(message)
    assert (found.status, found.addendum) == (status, addendum)
    assert (found.accession, found.issuer) == ("001", "RIS")


def test_a_withdrawal_that_names_a_day_or_no_time_withdraws() -> None:
    report = version("Clear.", time="20240301120000")
    for time in ("20240301", ""):
        withdrawn = version("", Status.WITHDRAWN, time)
        assert choose([report, withdrawn]).report is None
        assert choose([report, withdrawn], arrived=True).report is None
        assert choose([withdrawn, report], arrived=True).report == report
    assert choose([report, version("", Status.WITHDRAWN, "20240229")]).report == report


def test_of_one_status_and_time_the_one_that_came_last_counts_where_that_is_known() -> None:
    one, other = version("One.", time="20240301"), version("Other.", time="20240301")
    assert choose([one, other]).report == one
    assert choose([one, other], arrived=True).report == other
    assert choose([other, one], arrived=True).report == one


def test_an_addendum_that_holds_the_whole_report_takes_its_place() -> None:
    whole = version("Clear. Now seen: nodule.", time="2024030212", addendum=True)
    longer = version("Clear. Now seen: nodule. Old.", time="2024030312", addendum=True)
    chosen = choose([version("Clear.", time="20240301"), whole, longer])
    assert whole_text(chosen)[0] == "Clear. Now seen: nodule. Old."
    assert len(chosen.replaced) == 2


@pytest.mark.parametrize("name", ["reports.csv", "reports.CSV.gz"])
def test_a_table_with_statuses(tree: Path, name: str) -> None:
    table = tree.parent / name
    rows = (
        b"study_id,status,time,report\n"
        b"001,preliminary,2024-03-01,Pneumonia?\n001,corrected,2024-03-03,No pneumonia.\n"
        b"001,final,2024-03-02,Pneumonia.\n1.2.9.2,final,2024-03-01,Clear.\n"
        b"1.2.9.2,addendum,2024-03-05,Old film seen.\n1.2.9.3,odd,2024-03-05,x\n"
    )
    table.write_bytes(gzip.compress(rows) if name.endswith(".gz") else rows)
    summary, texts, why = load(tree, reports=table)
    assert texts == {
        "1.2.9.1": "No pneumonia.", "1.2.9.2": "Clear.\n\nADDENDUM:\nOld film seen."
    }  # fmt: skip
    assert "status is not one of" in why[f"reports {name} row 6"]
    replaced = load_table(tree.parent / "out/reports.replaced.csv")
    assert {row["report"] for row in replaced} == {"Pneumonia?", "Pneumonia."}
    assert (summary.reports, summary.studies_without_report) == (2, 1)


def test_messages_and_structured_reports_inside_the_tree(tree: Path) -> None:
    (tree / "a.hl7").write_bytes(
        hl7("Preliminary.", status="P") + b"\r" + hl7("FINDINGS: Größe.\nEnd.")
    )
    save_sr(tree / "2.sr.dcm", 2, "Ärztlicher Befund 胸部.")
    (tree / "adt").write_bytes(hl7().replace(b"ORU^R01", b"ADT^A01"))
    save_sr(tree / "measurements", 3, "5 mm", title="126000")
    summary, texts, why = load(tree)
    assert texts == {
        "1.2.9.1": "FINDINGS: Größe.\nEnd.",
        "1.2.9.2": "FINDINGS:\nÄrztlicher Befund 胸部.\n\nIMPRESSION:\nNormal.",
    }
    assert why["adt"] == "no DICOM file"
    assert why["measurements"].startswith("no image in it")
    assert summary.images == 3
    assert (summary.report_versions or {})["replaced"] == 1


def test_joined_by_accession_and_issuer_else_by_the_study(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number, name in ((1, "NORD"), (2, "SUED")):
        issuer = Dataset()
        issuer.LocalNamespaceEntityID = name
        save_image(
            tree / str(number), number, AccessionNumber="007", PatientID="0042",
            IssuerOfPatientID=name, IssuerOfAccessionNumberSequence=Sequence([issuer]),
        )  # fmt: skip
    save_image(tree / "3", 3)
    folder = tmp_path / "in"
    folder.mkdir()
    sent = {
        "nord": hl7("Of the north.", accession="007^NORD", patient="0042^^^NORD"),
        "sued": hl7("Of the south.", accession="007^SUED&1.2.3&ISO", patient="0042^^^SUED"),
        "either": hl7("Of which?", accession="007", patient="0042"),
        "study": hl7("By study.", accession="999^X", study="1.2.9.3", patient="P003"),
        "wrong": hl7("Of another.", accession="003", patient="P004"),
    }
    for name, data in sent.items():
        (folder / f"{name}.hl7").write_bytes(data)
    summary, texts, why = load(tree, reports=folder)
    assert texts == {
        "1.2.9.1": "Of the north.", "1.2.9.2": "Of the south.", "1.2.9.3": "By study."
    }  # fmt: skip
    assert why == {"wrong.hl7": OTHER_PATIENT}
    assert (summary.reports_without_study, summary.damaged) == (1, 0)


def test_escapes_headings_and_repetitions() -> None:
    found = read_one(hl7("Left\\.br\\right \\T\\ \\H\\bold\\N\\ 3\\F\\4\\E\\ \\X41\\~second"))
    assert found.report == "Left\nright & bold 3|4\\ A\nsecond"
    # Their bytes are of the message's own character set.
    assert read_one(hl7("Gr\\XC3B6\\\\XC39F\\e")).report == "Größe"
    assert read_one(hl7("\\XE0\\", charset="8859/5")).report == "р"
    found = read_one(hl7("Clear.", code="36643-5&IMP^Impression"))
    assert found.report == "IMPRESSION:\nClear."
    found = read_one(hl7("Late.", code="36643-5&ADT"))
    assert (found.addendum, found.report) == (True, "Late.")


def test_a_null_is_no_text_and_no_number() -> None:
    found = read_one(hl7('Clear.\n""', accession='""^RIS', study="1.2", patient='""'))
    assert (found.report, found.accession, found.patient) == ("Clear.", "", "")
    with pytest.raises(MessageError, match="holds no text"):
        read_message(hl7('""'), "m")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (hl7("Größe", charset="8859/1").replace(b"8859/1", b""), "names no character set"),
        (hl7(charset="EBCDIC"), "unknown character set"),
        (hl7(accession=""), "neither an accession number nor a study UID"),
        (hl7("").replace(b"OBX", b"NTE"), "holds no text"),
        (hl7().replace(b"OBR", b"ZBR"), "holds no OBR segment"),
        (b"MSH|", "begins with no MSH segment"),
    ],
)
def test_what_is_wrong_with_a_message(data: bytes, says: str) -> None:
    with pytest.raises(MessageError, match=says) as caught:
        read_message(data, "m")
    assert "Doe" not in str(caught.value)


def test_files_of_several_messages_framed_or_not_in_every_character_set() -> None:
    one, two = hl7("A"), hl7("B")
    for data in (
        one + b"\r\n" + two, b"\x0b" + one + b"\x1c\r\x0b" + two + b"\x1c\r",
        b"FHS|^~\\&\rBHS|^~\\&\r" + one.replace(b"\r", b"\n") + b"\n" + two + b"\rBTS|2\rFTS|1",
    ):  # fmt: skip
        texts = [one for message in messages(data) for one in read_message(message, "m")]
        assert [one.report for one in texts] == ["A", "B"]
    for name in CHARACTER_SETS:
        (message,) = messages(hl7(charset=name))
        assert read_one(message).report == "Clear.", name
    for noise in (b"", b"\0" * 50, b"MSH", b"MSH|^~\\&" * 3, bytes(range(256))):
        for message in messages(noise):
            with pytest.raises(MessageError):
                if not read_message(message, "m"):
                    raise MessageError


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("9434765919^^^NHS^NH~P001^^^HOSP^MR", "HOSP:P001"), ("1^^^GOV^NI~P001^^^^PI", "P001"),
        ("77^^^OLD^PI~P001^^^HOSP^MR", "HOSP:P001"), ("P001~77", "P001"), ("~P001", ""),
    ],
)  # fmt: skip
def test_of_several_numbers_of_a_patient_the_hospitals_own_counts(listed: str, found: str) -> None:
    assert read_one(hl7(patient=listed)).patient == found


def test_a_report_with_an_addendum_or_a_part_that_was_wrong_in_it_is_the_report() -> None:
    found = read_one(hl7("Clear.\nHeart.").replace(b"Heart.||||||F", b"Heart.||||||W"))
    assert (found.status, found.report) == (Status.FINAL, "Clear.")
    lines = hl7("Clear.\nLate.", code="36643-5&GDT").replace(b"3|TX|36643-5&GDT", b"3|TX|X&ADT")
    found = read_one(lines)
    assert not found.addendum
    assert found.report.endswith("Clear.\n\nADDENDUM:\nLate.")


@pytest.mark.parametrize(
    ("complete", "verified", "status"),
    [
        ("COMPLETE", "VERIFIED", Status.FINAL),
        ("COMPLETE", "UNVERIFIED", Status.PRELIMINARY),
        ("PARTIAL", "VERIFIED", Status.PRELIMINARY),
    ],
)
def test_a_structured_report_is_final_when_it_is_complete_and_verified(
    tmp_path: Path, complete: str, verified: str, status: Status
) -> None:
    path = tmp_path / "sr.dcm"
    save_sr(path, 1, "Clear.", CompletionFlag=complete, VerificationFlag=verified)
    found = read_sr(path, "sr")
    assert found is not None
    assert found.status == status


def test_a_report_under_the_old_id_of_a_merged_patient_is_joined(tree: Path) -> None:
    table, reports = tree.parent / "merged.csv", tree.parent / "reports.hl7"
    table.write_text("patient_id,merged_into\nOLD,P001\n")
    reports.write_bytes(hl7(patient="OLD"))
    _, texts, _ = load(tree, reports=reports, merged_patients=table)
    assert texts == {"1.2.9.1": "Clear."}
