"""HL7 v2 result messages (ORU) and documents (MDM), read strictly.

Source: HL7 version 2.5.1, chapters 2 (encoding, escapes, MSH-18), 7 (OBR-25, OBX-11) and 9 (MDM).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cxrtext.datasets.admission.ids import issued
from cxrtext.datasets.importing.versions import ReportVersion, Status, read_status
from cxrtext.records.cells import read_time

START, FRAME_END = b"\x0b", b"\x1c"
MAX_BYTES = 64 * 2**20
CHARACTER_SETS = {
    "": "utf-8",
    "ASCII": "ascii",
    "UNICODE": "utf-8",
    "UNICODE UTF-8": "utf-8",
    "UTF-8": "utf-8",
    "8859/1": "cp1252",  # has quotes and dashes where Latin-1 has nothing
    "8859/15": "iso8859-15",
    **{f"8859/{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9)},
    "ISO IR6": "ascii",
    "ISO IR87": "iso2022_jp",
    "ISO IR159": "iso2022_jp_1",
    "GB 18030-2000": "gb18030",
    "KS X 1001": "euc_kr",
    "ISO IR149": "euc_kr",
    "BIG-5": "big5",
}
"""Codecs by character set, as MSH-18 names them (table 0211)."""
_HEADER = re.compile(rb"MSH(.)")
_BEGIN = re.compile(rb"(?:^|[\r\n\x0b\x1c])(?:\xef\xbb\xbf)? *(?=(MSH|[FB]HS)[^\w\s]{4})")
_NAMES = (
    "MSH|SFT|UAC|EVN|PID|PD1|MRG|NK1|PV1|PV2|AL1|DG1|ORC|TQ1|TQ2|OBR|OBX|NTE|CTD|FT1|CTI|SPM|SAC|TXA"
    "|CON|PRT|ARV|ROL|DSC|FTS|BTS|Z[A-Z0-9]{2}"
)
"""Segments of results and documents; a line that begins otherwise ("NAD") is text."""
_NULL = '""'  # a field with this value asks to remove the value
_TEXT_KINDS = {"TX", "FT", "ST", ""}
_OWN_NUMBER = ("MR", "PI")
"""Types of identifiers (table 0203): medical record number, patient internal identifier."""
_DOCUMENT = {
    **dict.fromkeys(("DI", "DO", "IP", "IN", "PA"), Status.PRELIMINARY),
    **dict.fromkeys(("AU", "LA"), Status.FINAL),
}
"""TXA-17: how far a document has come (table 0271)."""
_GONE = {"D", "W"}
"""OBX-11 (table 0085): deleted, or posted wrongly, for example under the wrong patient."""
_STUDY_UID = {"113014", "STUDY INSTANCE UID", "STUDYINSTANCEUID"}
_ACCESSION = (("OBR", 18), ("OBR", 3), ("ORC", 3), ("TXA", 15))
"""IHE's field, else the filler's order number."""
_NOTICES = {"T01", "T03", "T05", "T07"}
"""Document events that come without text and change no report."""
MERGES = frozenset({"A18", "A34", "A35", "A36", "A39", "A40"})
"""ADT events that merge one patient's id into another's (table 0003)."""
_SECTIONS = {
    **dict.fromkeys(("GDT", "59776-5", "FINDINGS"), "FINDINGS"),
    **dict.fromkeys(("IMP", "19005-8", "IMPRESSION"), "IMPRESSION"),
    **dict.fromkeys(("ADT", "55107-7", "ADDENDUM"), "ADDENDUM"),
}


class MessageError(Exception):
    """Says in one line what is wrong with a message, without quoting it."""


def looks_like_hl7(start: bytes) -> bool:
    """Whether a file begins like a message or a batch of messages, framed or not."""
    return start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\x0b\r\n ")[:3] in (b"MSH", b"FHS", b"BHS")


def messages(data: bytes) -> Iterator[bytes]:
    """Divide a file into its messages; each begins at its MSH segment."""
    _, *found = _BEGIN.split(data)
    for kind, text in zip(found[::2], found[1::2], strict=True):
        if kind == b"MSH":
            yield text.strip(b"\x0b\x1c\r\n ")


@dataclass(frozen=True, slots=True)
class _Marks:
    """The characters that divide a message, and the codec of its text."""

    field: str
    component: str
    repetition: str
    escape: str
    part: str
    codec: str


def _decoded(message: bytes, unnamed: str) -> tuple[list[str], _Marks]:
    """The segments of a message; a line that begins no segment continues the last field."""
    if _HEADER.match(message) is None or len(message) < 8:
        raise MessageError("begins with no MSH segment")
    marks = message[3:8].decode("latin-1")
    lines = re.split(rb"\r\n|\r|\n", message)
    fields = lines[0].split(marks[0].encode("latin-1"))
    named = fields[17].decode("latin-1") if len(fields) > 17 else ""
    names = [name.strip().upper() for name in named.split(marks[2])]
    texts, codec = _texts(lines, names if any(names) else [unnamed.upper()])
    begins = re.compile(rf" *(?:{_NAMES}){re.escape(marks[0])}")
    segments: list[str] = []
    for text in texts:
        if not segments or begins.match(text):
            segments.append(text.lstrip(" "))
        elif line := text.strip(" \x0b\x1c"):
            segments[-1] += f"\n{line}"
    if any(one.startswith(f"MSH{marks[0]}") for one in segments[1:]):
        raise MessageError("holds several messages; send each in a frame of its own")
    part = marks[4] if marks[4] != marks[0] else "&"
    return segments, _Marks(marks[0], marks[1], marks[2], marks[3], part, codec)


def _texts(lines: list[bytes], names: list[str]) -> tuple[list[str], str]:
    """Decode lines with the character sets of MSH-18; only one set may go beyond ASCII."""
    if not all(name in CHARACTER_SETS for name in names):
        raise MessageError("names an unknown character set (MSH-18)")
    codecs = [CHARACTER_SETS[name] for name in names if name or names == [""]]
    codec = next((one for one in codecs if one != "ascii"), "ascii")
    try:
        whole = b"".join(lines)
        is_utf8 = not whole.isascii() and "\ufffd" not in whole.decode("utf-8", "replace")
        # Text in these sets is never valid UTF-8 by chance.
        if is_utf8 and codec in ("cp1252", "iso8859-15"):
            raise ValueError
        return [_text_of(line, codec) for line in lines], codec
    except ValueError:
        fault = "is in another character set than MSH-18 says" if names != [""] else (
            "names no character set (MSH-18) and is not UTF-8"
        )  # fmt: skip
        raise MessageError(fault) from None


def _text_of(data: bytes, codec: str) -> str:
    """Decoded text; a switch between character sets within it raises ValueError."""
    text = data.decode(codec)
    if re.search("[\x0e\x0f\x1b]", text):
        raise ValueError
    return text


def _unescaped(text: str, marks: _Marks) -> str:
    """Resolve escapes; formatting becomes line ends, highlighting is dropped."""
    known = {
        "F": marks.field, "S": marks.component, "R": marks.repetition, "E": marks.escape,
        "T": marks.part, "H": "", "N": "",
    }  # fmt: skip
    mark = re.escape(marks.escape)

    def resolve(match: re.Match[str]) -> str:
        if found := match["bytes"]:
            try:
                raw = bytes.fromhex(re.sub(f"{mark}X?", "", found))
                return re.sub("\r\n?", "\n", _text_of(raw, marks.codec))
            except ValueError:
                raise MessageError("escapes bytes that are not in its character set") from None
        if (word := match["word"]) in known:
            return known[word]
        if word.lower() in (".br", ".sp", ".ce") or re.fullmatch(r"\.(sp|sk)\s*\+?\d*", word):
            return " " if word.startswith(".sk") else "\n"
        return ""

    # The bytes of one character may be escaped one by one.
    run = f"(?P<bytes>(?:{mark}X(?:[0-9A-Fa-f]{{2}})+{mark})+)"
    return re.sub(f"{run}|{mark}(?P<word>[^{mark}]{{1,40}}?){mark}", resolve, text)


class _Segment:
    """The fields of a segment, from 1 as the standard counts them."""

    def __init__(self, line: str, marks: _Marks) -> None:
        self._fields, self._marks = line.split(marks.field), marks
        self.name = self._fields[0]

    def raw(self, number: int) -> str:
        """A field with its escapes, "" if it is missing."""
        place = number - 1 if self.name == "MSH" else number
        return self._fields[place] if place < len(self._fields) else ""

    def repetitions(self, number: int) -> int:
        return self.raw(number).count(self._marks.repetition) + 1

    def get(self, number: int, component: int = 1, repetition: int = 0) -> str:
        """A component of a field, without escapes; by default the first of the first repetition."""
        field = self.raw(number).split(self._marks.repetition)[repetition]
        parts = field.split(self._marks.component)
        text = parts[component - 1] if component <= len(parts) else ""
        return "" if text == _NULL else _unescaped(text, self._marks).strip()

    def lines(self, number: int) -> str:
        """A text field; each repetition is a line."""
        parts = self.raw(number).split(self._marks.repetition)
        return "\n".join(_unescaped(part, self._marks) for part in parts if part != _NULL)

    def assigner(self, number: int, component: int, repetition: int = 0) -> str:
        """The namespace of an assigning authority."""
        return self.get(number, component, repetition).split(self._marks.part)[0].strip()


def read_message(message: bytes, item: str, unnamed: str = "") -> list[ReportVersion]:
    """Read one message as one report version per order; [] if it is no result or document.

    ``unnamed`` is the character set, as in MSH-18, of messages that name none; "" for UTF-8.
    """
    lines, marks = _decoded(message, unnamed)
    segments = [_Segment(line, marks) for line in lines]
    if segments[0].get(9) not in ("ORU", "MDM"):
        return []
    versions = [_version(part, marks, item) for part in _orders(segments)]
    reported = [one for one in versions if one.report or one.status == Status.WITHDRAWN]
    is_notice = segments[0].get(9) == "MDM" and segments[0].get(9, 2) in _NOTICES
    # Some of several orders may have no report yet.
    final = (one for one in versions if one.status in (Status.FINAL, Status.CORRECTED))
    if not is_notice and (not reported or not all(one.report for one in final)):
        raise MessageError("holds no text in its OBX segments")
    return reported


def is_merge(message: bytes) -> bool:
    """Whether a message merges one patient's id into another's."""
    marks = message[3:5].decode("latin-1")
    fields = re.split(rb"[\r\n]", message, maxsplit=1)[0].decode("latin-1").split(marks[:1] or "|")
    code, _, rest = fields[8].strip().partition(marks[1:]) if len(fields) > 8 else ("", "", "")
    return code == "ADT" and rest.split(marks[1:] or "^")[0] in MERGES


def read_merges(message: bytes, unnamed: str = "") -> list[tuple[str, str]]:
    """The patient ids that a message of `MERGES` ends, each with the id that replaces it.

    Source: HL7 v2.5.1, 3.3.18, 3.3.34 to 3.3.36, 3.3.40 and 3.4.10: PID-3 replaces MRG-1.
    """
    lines, marks = _decoded(message, unnamed)
    merges, new = [], ""
    for segment in (_Segment(line, marks) for line in lines):
        if segment.name == "PID":
            new = _patient_id(segment)
        elif segment.name == "MRG":
            old = _patient_id(segment, 1)
            if not old or not new:
                raise MessageError("merges patients without naming both (PID-3, MRG-1)")
            merges.append((old, new))
    if not merges:
        raise MessageError("merges patients but has no MRG segment")
    return merges


def _orders(segments: list[_Segment]) -> list[list[_Segment]]:
    """The segments of each order with its own accession number; without several, all together.

    An order begins with its ORC, or else its OBR.  Segments before a patient's first order belong
    to all of that patient's orders.  A document, which follows its orders, belongs to all of them,
    and so does the only ZDS of a message.
    """
    names = [one.name for one in segments]
    end = names.index("TXA") if "TXA" in names else len(names)
    of_all = segments[end:]
    if names.count("ZDS") == 1 and names.count("PID") < 2:
        of_all = [segments[names.index("ZDS")], *of_all]
    common, groups = segments[:1], list[tuple[list[_Segment], list[_Segment]]]()
    place, begun = common, False  # an order that has its ORC, and not yet its OBR
    for one in segments[1:end]:
        if one.name == "PID":
            place = common = segments[:1]
        elif one.name == "ORC" or (one.name == "OBR" and not begun):
            groups.append((common, place := []))
        begun = one.name == "ORC" or (begun and one.name not in ("PID", "OBR"))
        place.append(one)
    orders: dict[tuple[int, str], list[_Segment]] = {}
    for common, own in groups:
        if any(one.name in ("OBR", "OBX") for one in own):
            orders.setdefault((id(common), _accession(own)[0]), [*common]).extend(own)
    if len(orders) > 1 and any(not number for _, number in orders):
        raise MessageError("reports on several orders, one without an accession number")
    return [[*own, *of_all] for own in orders.values()] or [segments]


def _version(segments: list[_Segment], marks: _Marks, item: str) -> ReportVersion:
    head = segments[0]
    patient = next((s for s in segments if s.name == "PID"), None)
    orders = [s for s in segments if s.name == "OBR"]
    document = next((s for s in segments if s.name == "TXA"), None)
    if not orders and document is None:
        raise MessageError("holds no OBR segment")
    order = orders[0] if orders else _Segment("OBR", marks)
    accession, issuer = _accession(segments)
    study, report, only_addenda, observed = _text(segments)
    event = head.get(9, 2) if head.get(9) == "MDM" else ""
    status, addendum = _status(event, order, document, observed)
    if not accession and not study:
        raise MessageError("names neither an accession number nor a study UID")
    return ReportVersion(
        item=item,
        study=study,
        accession=accession,
        issuer=issuer,
        patient=_patient_id(patient) if patient else "",
        status=status,
        time=read_time(order.get(22) or head.get(7)),
        addendum=addendum or only_addenda,
        report=report,
    )


def _status(
    event: str, order: _Segment, document: _Segment | None, observed: set[str]
) -> tuple[Status, bool]:
    """How far a report has come, and whether it is an addendum.

    A document says it by its event (table 0003: T11 cancels, T06 adds, T10 replaces), TXA-17
    (table 0271) and TXA-19 (table 0273: CA is deleted).  If it is withdrawn, TXA-13 names the
    document that it was added to.  A result says it by OBR-25 (table 0123).  Observations (OBX-11,
    table 0085) may say that the whole text is gone, or that it is a correction.
    """
    status, addendum = read_status(order.get(25))
    observed = observed - {"X"}  # a result that cannot be obtained says nothing about the others
    if document is not None:
        status = _DOCUMENT.get(document.get(17).upper(), status)
    if status == Status.UNKNOWN:
        known = [read_status(one)[0] for one in observed - _GONE - {""}]
        status = min(known, default=Status.UNKNOWN)
    is_deleted = document is not None and document.get(19).upper() == "CA"
    if event == "T11" or is_deleted or (observed and observed <= _GONE):
        status = Status.WITHDRAWN
    elif ("C" in observed or event in ("T09", "T10")) and status in (Status.UNKNOWN, Status.FINAL):
        status = Status.CORRECTED
    is_part = status == Status.WITHDRAWN and document is not None and bool(document.get(13))
    return status, addendum or event in ("T05", "T06") or is_part


def _patient_id(patient: _Segment, field: int = 3) -> str:
    """The hospital's own number, which images have too; it need not come first in PID-3."""
    kinds = [patient.get(field, 5, n).upper() for n in range(patient.repetitions(field))]
    chosen = next((kinds.index(kind) for kind in _OWN_NUMBER if kind in kinds), 0)
    return issued(patient.get(field, 1, chosen), patient.assigner(field, 4, chosen))


def _accession(segments: list[_Segment]) -> tuple[str, str]:
    """The accession number and its issuer."""
    fields = [(one, n) for name, n in _ACCESSION for one in segments if one.name == name]
    return next(((one.get(n), one.assigner(n, 2)) for one, n in fields if one.get(n)), ("", ""))


def _text(segments: list[_Segment]) -> tuple[str, str, bool, set[str]]:
    """The study's UID, the text with headings, whether all is an addendum, and OBX-11 values."""
    study, parts, last = "", list[str](), ""
    observed: set[str] = set()
    headings: set[str] = set()
    for segment in segments:
        if segment.name == "ZDS":
            study = study or segment.get(1)
        if segment.name != "OBX":
            continue
        words = {segment.get(3).upper(), segment.get(3, 2).upper()}
        words |= {piece for word in words for piece in word.split("&")}
        if words & _STUDY_UID:
            study = segment.get(5)
        elif segment.get(2).upper() in _TEXT_KINDS:
            observed.add(segment.get(11).upper())
            if read_status(segment.get(11))[0] == Status.WITHDRAWN:
                continue
            heading = next((_SECTIONS[word] for word in sorted(words) if word in _SECTIONS), "")
            headings.add(heading)
            if said := segment.lines(5).rstrip():
                if heading and heading != last:
                    parts.append(f"\n{heading}:")
                last = heading
            parts.append(said)
    text, only = "\n".join(parts).strip(), headings == {"ADDENDUM"}
    return study, text.removeprefix("ADDENDUM:").strip() if only else text, only, observed
