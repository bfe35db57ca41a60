"""HL7 v2 as hospitals send it: line ends, character sets, several orders, events of documents."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrtext.datasets.importing.reports.hl7 import MessageError, messages, read_message
from cxrtext.datasets.importing.versions import ReportVersion, Status
from tests.datasets.test_import_reports import hl7, mdm, read_one

LINES = st.lists(
    st.sampled_from(["Heart is large.", "NAD", "", "  No effusion.", "THE END", "MSH is no word"]),
    min_size=1, max_size=6,
).filter(any)  # fmt: skip
FRAMED: dict[str, Callable[[bytes], bytes]] = {
    "bare": lambda message: message,
    "framed": lambda message: b"\x0b" + message + b"\x1c\r",
    "marked": lambda message: b"\xef\xbb\xbf" + message + b"\r\n",
    "in a batch": lambda message: b"FHS|^~\\&\rBHS|^~\\&\r" + message + b"\rBTS|1\rFTS|1\r",
}


@given(
    lines=LINES, end=st.sampled_from(["\r", "\n", "\r\n"]), way=st.sampled_from(sorted(FRAMED))
)  # fmt: skip
def test_a_report_is_the_same_version_however_its_lines_end(
    lines: list[str], end: str, way: str
) -> None:
    said = [line.strip() for line in lines if line.strip()]
    whole = read_one(hl7("\\.br\\".join(said), accession="7", study="1.2.3"))
    assert whole.report.split("\n") == said
    sent = hl7("TEXT", accession="7", study="1.2.3").replace(b"\r", end.encode())
    begun = end.join(lines).lstrip().encode()  # a text begins in its field
    (message,) = messages(FRAMED[way](sent.replace(b"TEXT", begun)))
    assert read_one(message) == whole


def in_set(charset: str, data: bytes) -> bytes:
    """A message whose MSH-18 and whose text are these."""
    return hl7("TEXT").replace(b"UNICODE UTF-8", charset.encode()).replace(b"TEXT", data)


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("~ISO IR87", "心臓 A".encode("iso2022_jp"), "心臓 A"),
        ("~KS X 1001", "심장 정상".encode("euc_kr"), "심장 정상"),
        ("8859/1", "“Größe” – 3".encode("cp1252"), "“Größe” – 3"),
        ("UNICODE UTF-8", rb"Gr\XC3\\XB6\\XC3\\X9F\e \XE5BF\\X83\.", "Größe 心."),
        ("~ISO IR87", b"\\X" + "心".encode("iso2022_jp").hex().encode() + b"\\.", "心."),
    ],
)  # fmt: skip
def test_a_text_comes_out_as_it_was_written(charset: str, data: bytes, text: str) -> None:
    assert read_one(in_set(charset, data)).report == text


@pytest.mark.parametrize(
    ("charset", "data"),
    [
        ("8859/1", "Größe 心".encode()), ("ISO IR6~ISO IR87", "心臓".encode("shift_jis")),
        ("ISO IR6~ISO IR87", b"\x1b$(Q!!"), ("UNICODE UTF-8", b"\x0e=I@e\x0f"),
        ("8859/1~8859/5", "Größe ".encode("latin-1") + b"\x1b-L" + "Да".encode("iso8859-5")),
        ("ASCII", b"a \x1bZ b"), ("UNICODE UTF-8", rb"Gr\XF6\sse"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_never_taken(charset: str, data: bytes) -> None:
    with pytest.raises(MessageError, match=r"another character set|not in its character set"):
        read_message(in_set(charset, data), "m")


EVENTS = {  # table 0003: the status of an authenticated document, and whether it is an addendum
    "T01": (Status.FINAL, False), "T02": (Status.FINAL, False), "T03": (Status.FINAL, False),
    "T04": (Status.FINAL, False), "T05": (Status.FINAL, True), "T06": (Status.FINAL, True),
    "T07": (Status.FINAL, False), "T08": (Status.FINAL, False), "T09": (Status.CORRECTED, False),
    "T10": (Status.CORRECTED, False), "T11": (Status.WITHDRAWN, False),
}  # fmt: skip


def test_each_event_of_documents_by_what_it_does() -> None:
    found = {event: read_one(mdm(event, "Clear.", completion="AU")) for event in EVENTS}
    assert {event: (one.status, one.addendum) for event, one in found.items()} == EVENTS
    for event in EVENTS:  # one that has come to be deleted is gone, whatever tells it
        assert read_one(mdm(event, availability="CA")).status == Status.WITHDRAWN
    for event in ("T01", "T03", "T05", "T07"):  # a notice
        assert read_message(mdm(event, completion="AU"), "m") == []
    for event in ("T02", "T09", "T10"):  # what takes another's place must be there
        with pytest.raises(MessageError, match="holds no text"):
            read_message(mdm(event, completion="AU"), "m")
    completed = {
        code: read_one(mdm("T02", "Clear.", completion=code)).status
        for code in ("DI", "DO", "IP", "IN", "PA", "AU", "LA", "")
    }
    early = dict.fromkeys(("DI", "DO", "IP", "IN", "PA"), Status.PRELIMINARY)
    assert completed == {**early, "AU": Status.FINAL, "LA": Status.FINAL, "": Status.FINAL}


def segments(*lines: str) -> list[tuple[str, str, str, str]]:
    """The patients, accession numbers, studies and texts of a message."""
    head = "MSH|^~\\&|R|H|P|H|2024||ORU^R01|1|P|2.5.1"
    if any(line.startswith("TXA") for line in lines):
        head = head.replace("ORU^R01", "MDM^T02")
    found: list[ReportVersion] = read_message("\r".join((head, *lines)).encode(), "m")
    return [(one.patient, one.accession, one.study, one.report) for one in found]


def obr(number: str, status: str = "F") -> str:
    return f"OBR|1||{number}{'|' * 22}{status}"


def obx(text: str) -> str:
    return f"OBX|1|TX|18748-4||{text}||||||F"


def test_to_which_order_a_segment_belongs() -> None:
    pid, other = "PID|1||P1", "PID|1||P2"
    one, two = (obr("A1"), obx("One.")), (obr("A2"), obx("Two."))
    first, second = ("P1", "A1", "", "One."), ("P1", "A2", "", "Two.")
    assert segments(pid, *one, *two) == [first, second]
    # A filler's number in the ORC, which need not stand beside the OBR.
    orc = ("ORC|RE||A2", "NTE|1", "OBR|1", obx("Two."))
    assert segments(pid, "ORC|RE||A1", *one, *orc) == [first, second]
    # Each patient of a message has their own.
    assert segments(pid, *one, other, *two) == [first, ("P2", "A2", "", "Two.")]
    assert segments(pid, *one, other, obr("A1"), obx("Two."))[1] == ("P2", "A1", "", "Two.")
    # One study of several orders; or one of each.
    assert [one[2] for one in segments(pid, *one, *two, "ZDS|1.2.3")] == ["1.2.3", "1.2.3"]
    own = segments(pid, *one, "ZDS|1.2.3", *two, "ZDS|1.2.4")
    assert [one[2] for one in own] == ["1.2.3", "1.2.4"]
    alone = segments(pid, *one, "ZDS|1.2.3", other, *two)
    assert [one[2] for one in alone] == ["1.2.3", ""]
    # A document comes after the orders that it is about.
    assert [one[1:] for one in segments(pid, obr("A1"), obr("A2"), "TXA|1", obx("Both."))] == [
        ("A1", "", "Both."), ("A2", "", "Both."),
    ]  # fmt: skip


def test_an_order_without_a_report_yet_is_passed_over_and_a_final_one_is_not() -> None:
    pid, one = "PID|1||P1", (obr("A1"), obx("One."))
    for status in ("", "P", "I"):
        assert [found[1] for found in segments(pid, *one, obr("A2", status))] == ["A1"]
    mixed = segments(pid, *one, obr("A2", "X"), obr("A3", "P"))
    assert [found[1] for found in mixed] == ["A1", "A2"]
    for lines in ((*one, obr("A2")), (obr("A1", "P"), obr("A2", "P"))):
        with pytest.raises(MessageError, match="holds no text"):
            segments(pid, *lines)
    with pytest.raises(MessageError, match="holds no OBR"):
        segments(pid, *one, "ORC|RE||A2", obx("Two."))


def test_headings_without_a_text_are_no_report() -> None:
    empty, late = "OBX|1|TX|59776-5||||||||F", "OBX|2|TX|X&ADT||Late.||||||F"
    with pytest.raises(MessageError, match="holds no text"):
        segments("PID|1||P1", obr("A1"), empty)
    for lines in ((late,), (late.replace("Late.", ""), late)):
        assert segments("PID|1||P1", obr("A1"), *lines)[0][3] == "Late."


def test_two_messages_that_come_as_one_are_never_taken_for_one() -> None:
    with pytest.raises(MessageError, match="several messages"):
        read_message(hl7("A") + b"\r" + hl7("B", patient="P2"), "m")
