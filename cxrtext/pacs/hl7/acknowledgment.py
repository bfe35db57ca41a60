"""Acknowledgments of HL7 v2 messages: which a sender is due, and how they are written.

In original mode (MSH-15 and MSH-16 are empty) there is one: AA, AE or AR.  In enhanced mode MSH-15
says when the accept acknowledgment is wanted (CA: the message is kept safely; CE, CR: it is not),
and MSH-16 the same of the application acknowledgment.  Both go back on the connection that the
message came on, the accept acknowledgment first.  A message is looked at before it is committed, so
one that is refused gets one refusal: CE or CR where MSH-15 asks for it, else AE or AR.

Source: HL7 v2.5.1, 2.9.2, 2.9.3, 2.15.9.15 and table 0155.
"""

import re
import secrets
from datetime import UTC, datetime
from typing import Literal

from cxrtext.datasets.importing.reports.hl7 import FRAME_END, START

Verdict = Literal["A", "E", "R"]
"""Accepted, in error, rejected: the second letter of a code of table 0008."""

_FIELD = re.compile(rb"[!-{}~]{1,199}")
_NUMBERS = {"E": b"207", "R": b"200"}  # table 0357


class _Header:
    """The MSH segment of a message, whatever that is."""

    def __init__(self, message: bytes) -> None:
        self.mark = message[3:4] if message[:3] == b"MSH" and len(message) > 8 else b"|"
        line = message.split(b"\r", 1)[0]
        self._fields = line.split(self.mark) if self.mark in message[:9] else []
        given = self._fields[1] if len(self._fields) > 1 else b""
        self.encoding = given if 3 <= len(given) <= 5 else b"^~\\&"

    def get(self, number: int, default: bytes = b"") -> bytes:
        """A short field that can be repeated; it is no text of a report."""
        value = self._fields[number - 1].strip() if number <= len(self._fields) else b""
        return value if _FIELD.fullmatch(value) else default

    def component(self, number: int, component: int) -> bytes:
        """A component of a field; "" where it has none."""
        parts = self.get(number).split(self.encoding[:1])
        return parts[component - 1] if component <= len(parts) else b""

    def condition(self, number: int) -> bytes:
        """When an acknowledgment is wanted; "" where the field is empty, or HL7's null."""
        return self.component(number, 1).upper().replace(b'""', b"")


def is_acknowledgment(message: bytes) -> bool:
    """Whether a message is one itself, and so gets none: two systems would never end."""
    return _Header(message).component(9, 1) in (b"ACK", b"MCF")


def answers(message: bytes, verdict: Verdict, text: str = "") -> bytes:
    """The acknowledgments that a message is due, framed; b"" where its sender wants none.

    Args:
        text: Why, without a word of the message.
    """
    head = _Header(message)
    accept, application = head.condition(15), head.condition(16)
    if not accept and not application:
        return _written(head, f"A{verdict}", text)
    codes = []
    if _wanted(accept, verdict):
        codes.append(f"C{verdict}")
    if _wanted(application, verdict) and (verdict == "A" or not codes):
        codes.append(f"A{verdict}")
    return b"".join(_written(head, code, text, enhanced=True) for code in codes)


def _wanted(condition: bytes, verdict: Verdict) -> bool:
    """Whether a condition of table 0155 holds; one that is not in it is none that is known to."""
    never = condition in (b"", b"NE")
    return not never and condition != (b"ER" if verdict == "A" else b"SU")


def _written(head: _Header, code: str, text: str, *, enhanced: bool = False) -> bytes:
    """An acknowledgment in the delimiters of its message; it asks for none itself."""
    now = datetime.now(UTC).strftime("%Y%m%d%H%M%S+0000").encode()
    control = secrets.token_hex(10).encode()
    trigger = head.component(9, 2)
    kind = b"ACK" + (head.encoding[:1] + trigger if trigger else b"")
    fields = [
        *(b"MSH", head.encoding, head.get(5), head.get(6), head.get(3), head.get(4), now, b""),
        *(kind, control, head.get(11, b"P"), head.get(12, b"2.5.1")),
    ]
    if enhanced:
        fields += [b"", b"", b"NE", b"NE"]
    mark = head.mark
    lines = [mark.join(fields), mark.join([b"MSA", code.encode(), head.get(10)])]
    if not code.endswith("A"):
        number = _NUMBERS[code[1]]
        lines.append(mark.join([b"ERR", b"", b"", number, b"E", b"", b"", b"", text.encode()]))
    return START + b"\r".join(lines) + b"\r" + FRAME_END + b"\r"
